package wirebroker.spring;

import java.util.List;
import java.util.Map;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.core.env.MapPropertySource;
import org.springframework.test.context.ContextConfigurationAttributes;
import org.springframework.test.context.ContextCustomizer;
import org.springframework.test.context.ContextCustomizerFactory;
import org.springframework.test.context.MergedContextConfiguration;
import org.springframework.test.context.TestContextAnnotationUtils;
import wirebroker.Broker;
import wirebroker.Wirebroker;

/**
 * Adds a broker to the application context of a test class with {@link Wirebroker}: as the property
 * {@code spring.kafka.bootstrap-servers}, and as a bean. The classes of this JVM with the same options share the broker, and they
 * also share a context.
 */
class WirebrokerContextCustomizerFactory implements ContextCustomizerFactory {
    @Override
    public ContextCustomizer createContextCustomizer(Class<?> test, List<ContextConfigurationAttributes> configuration) {
        var found = TestContextAnnotationUtils.findMergedAnnotation(test, Wirebroker.class);
        if (found == null) return null;
        if (found.own()) {
            throw new IllegalStateException(
                test.getName() + ": a context outlives its test, so its broker does, too; leave out own = true");
        }
        return new Customizer(List.of(found.options()));
    }

    /** Spring shares a context between classes whose customizers are equal. */
    private record Customizer(List<String> options) implements ContextCustomizer {
        @Override
        public void customizeContext(ConfigurableApplicationContext context, MergedContextConfiguration configuration) {
            var broker = Broker.shared(options.toArray(String[]::new));
            var settings = Map.<String, Object>of("spring.kafka.bootstrap-servers", broker.bootstrap());
            context.getEnvironment().getPropertySources().addFirst(new MapPropertySource("wirebroker", settings));
            context.getBeanFactory().registerSingleton("wirebroker", broker);
        }
    }
}
