package wirebroker;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.parallel.ResourceLock;

/**
 * Gives the tests of a class, or one test, a broker as a parameter of the type {@link Broker}. The broker is emptied before each
 * test, while clients and services stay connected. A test that fails prints the broker's report.
 *
 * <p>All tests of the JVM with the same options share one broker, so they never run at the same time.
 */
@Target({ElementType.TYPE, ElementType.METHOD})
@Retention(RetentionPolicy.RUNTIME)
@Inherited
@ExtendWith(WirebrokerExtension.class)
@ResourceLock("wirebroker")
public @interface Wirebroker {
    /** The topics that the broker has: "orders", or "orders:3" for 3 partitions. */
    String[] topics() default {};

    /** Flags of {@code wirebroker serve}. */
    String[] options() default {};

    /** If true, no other class or test shares the broker. Such a broker ends with the annotated class or test. */
    boolean own() default false;
}
