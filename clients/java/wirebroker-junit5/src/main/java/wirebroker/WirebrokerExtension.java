package wirebroker;

import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.platform.commons.support.AnnotationSupport;
import org.opentest4j.TestAbortedException;

/** Implements {@link Wirebroker}. */
class WirebrokerExtension implements BeforeAllCallback, BeforeEachCallback, AfterEachCallback, ParameterResolver {
    /** An annotation, the class or test that has it, and its broker. */
    private record Place(Wirebroker settings, Broker broker) {
        static Place of(ExtensionContext context) {
            var found = AnnotationSupport.findAnnotation(context.getElement(), Wirebroker.class);
            if (found.isEmpty()) return of(context.getParent().orElseThrow()); // the class of a test, or the class around it
            Wirebroker settings = found.get();
            if (!settings.own()) return new Place(settings, Broker.shared(settings.options()));
            // The store closes the broker. A store also looks for a key in the stores of the contexts around it.
            var store = context.getStore(Namespace.create(WirebrokerExtension.class));
            var broker = store.getOrComputeIfAbsent(context.getUniqueId(), key -> Broker.start(settings.options()), Broker.class);
            return new Place(settings, broker);
        }
    }

    @Override
    public ExtensionContextScope getTestInstantiationExtensionContextScope(ExtensionContext root) {
        return ExtensionContextScope.TEST_METHOD; // a constructor gets the broker of the test that will run
    }

    @Override
    public void beforeAll(ExtensionContext context) {
        beforeEach(context); // a service that starts before the first test finds its topics
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        Place place = Place.of(context);
        String method = context.getTestMethod().isPresent() ? "." + context.getDisplayName() : "";
        place.broker.reset(context.getRequiredTestClass().getSimpleName() + method, place.settings.topics());
    }

    @Override
    public void afterEach(ExtensionContext context) {
        var failed = context.getExecutionException().filter(error -> !(error instanceof TestAbortedException));
        if (failed.isPresent()) System.err.println(Place.of(context).broker.report());
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        var wanted = parameter.getParameter();
        return wanted.getType() == Broker.class && wanted.getAnnotations().length == 0; // one with @Autowired is Spring's
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return Place.of(context).broker;
    }
}
