// The JVM's call sites for code that is switched while it runs: their target is a method handle.
//
// The bench `jvm` runs this file with `java CallSites.java [--smoke]`. It prints lines of words:
//     activate KIND NS            setTarget to a method that returns 1
//     deactivate KIND NS          setTarget to a method that returns 0
//     loop NS                     the loop of the next line without a call
//     call KIND NS                one call of an active site, in a loop that uses its result
//     still KIND CALLS            calls a second of one thread: the mean of always on and always off
//     toggled KIND RATE TOGGLES CALLS SHARE
//                                 the requested rate (0: full speed) and the achieved one; calls a second;
//                                 the share of calls with the site on
// A site is a constant of the method that calls it, so the JIT compiler inlines its target, as with
// invokedynamic.

import java.lang.invoke.CallSite;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.MutableCallSite;
import java.lang.invoke.VolatileCallSite;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

public final class CallSites {
    static final MethodHandle ONE = handle("one");
    static final MethodHandle NOTHING = handle("nothing");
    static final CallSite MUTABLE = new MutableCallSite(ONE);
    static final CallSite VOLATILE = new VolatileCallSite(ONE);
    static final MethodHandle CALL_MUTABLE = MUTABLE.dynamicInvoker();
    static final MethodHandle CALL_VOLATILE = VOLATILE.dynamicInvoker();
    static final int BATCH = 256;

    static boolean smoke;

    static int one() {
        return 1;
    }

    static int nothing() {
        return 0;
    }

    static MethodHandle handle(String name) {
        try {
            return MethodHandles.lookup().findStatic(CallSites.class, name, MethodType.methodType(int.class));
        } catch (ReflectiveOperationException error) {
            throw new AssertionError(error);
        }
    }

    // Without this function, the JIT compiler would turn a batch into one addition.
    static long mix(long state, int value) {
        return (state + value) * 6364136223846793005L + 1;
    }

    // Calls the site in a batch, and returns how many calls saw it on. Each kind has its own
    // method, because the handle has to be a constant of the code that calls it.
    static int mutable(long[] state) throws Throwable {
        int sum = 0;
        long mixed = state[0];
        for (int call = 0; call < BATCH; call++) {
            int value = (int) CALL_MUTABLE.invokeExact();
            sum += value;
            mixed = mix(mixed, value);
        }
        state[0] = mixed;
        return sum;
    }

    static int volatiles(long[] state) throws Throwable {
        int sum = 0;
        long mixed = state[0];
        for (int call = 0; call < BATCH; call++) {
            int value = (int) CALL_VOLATILE.invokeExact();
            sum += value;
            mixed = mix(mixed, value);
        }
        state[0] = mixed;
        return sum;
    }

    static int none(long[] state) {
        long mixed = state[0];
        for (int call = 0; call < BATCH; call++) {
            mixed = mix(mixed, 1);
        }
        state[0] = mixed;
        return BATCH;
    }

    interface Executor {
        int run(long[] state) throws Throwable;
    }

    record Kind(String name, CallSite site, Executor executor) {}

    public static void main(String[] args) throws Exception {
        smoke = Arrays.asList(args).contains("--smoke");
        Kind[] kinds = {
            new Kind("mutable", MUTABLE, CallSites::mutable), new Kind("volatile", VOLATILE, CallSites::volatiles),
        };
        int rounds = smoke ? 1 : 9;
        for (Kind kind : kinds) {
            double[] on = new double[rounds];
            double[] off = new double[rounds];
            for (int round = 0; round < rounds; round++) {
                switchOften(kind, smoke ? 10 : 20_000, on, off, round);
            }
            print("activate", kind.name, median(on));
            print("deactivate", kind.name, median(off));
        }
        print("loop", time(new Kind("loop", null, CallSites::none), rounds));
        for (Kind kind : kinds) {
            kind.site.setTarget(ONE);
            print("call", kind.name, time(kind, rounds));
        }
        for (Kind kind : kinds) {
            throughput(kind, smoke ? 1 : 5);
        }
    }

    // Measures nanoseconds of each direction, idle: no compiled code depends on the site yet.
    static void switchOften(Kind kind, int pairs, double[] on, double[] off, int round) {
        long onTime = 0;
        long offTime = 0;
        for (int pair = 0; pair < pairs; pair++) {
            long start = System.nanoTime();
            kind.site.setTarget(NOTHING);
            long middle = System.nanoTime();
            kind.site.setTarget(ONE);
            long end = System.nanoTime();
            offTime += middle - start;
            onTime += end - middle;
        }
        on[round] = (double) onTime / pairs;
        off[round] = (double) offTime / pairs;
    }

    // Measures nanoseconds a call, the median of rounds after the JIT compiler has done its work.
    static double time(Kind kind, int rounds) throws Exception {
        try {
            long[] state = {1};
            int batches = smoke ? 10 : 200_000;
            double[] samples = new double[rounds];
            for (int round = -2; round < rounds; round++) {
                long start = System.nanoTime();
                for (int batch = 0; batch < batches; batch++) {
                    kind.executor.run(state);
                }
                long time = System.nanoTime() - start;
                if (round >= 0) {
                    samples[round] = (double) time / batches / BATCH;
                }
            }
            return median(samples);
        } catch (Throwable error) {
            throw new Exception(error);
        }
    }

    static void throughput(Kind kind, int rounds) throws Exception {
        long[] rates = {1_000, 10_000, 100_000, 1_000_000, 0};
        double[] still = new double[2 * rounds];
        for (int round = 0; round < rounds; round++) {
            for (int state = 0; state < 2; state++) {
                kind.site.setTarget(state == 0 ? NOTHING : ONE);
                still[2 * round + state] = run(kind, -1).calls;
            }
        }
        print("still", kind.name, Arrays.stream(still).average().orElse(0));
        for (long rate : rates) {
            double[] toggles = new double[rounds];
            double[] calls = new double[rounds];
            double[] share = new double[rounds];
            for (int round = 0; round < rounds; round++) {
                Run run = run(kind, rate);
                toggles[round] = run.toggles;
                calls[round] = run.calls;
                share[round] = run.share;
            }
            print("toggled", kind.name, rate, median(toggles), median(calls), median(share));
        }
    }

    record Run(double toggles, double calls, double share) {}

    // Toggles at a rate for a while: -1 for never, 0 for full speed.
    static Run run(Kind kind, long rate) throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        AtomicBoolean ready = new AtomicBoolean();
        AtomicLong calls = new AtomicLong();
        AtomicLong on = new AtomicLong();
        Thread executor = new Thread(() -> execute(kind, ready, stop, calls, on));
        executor.start();
        while (!ready.get()) {
            Thread.onSpinWait();
        }
        // Gives the JIT compiler time to compile a site again that was constant in the last run.
        Thread.sleep(smoke ? 1 : 100);
        long callsBefore = calls.get();
        long onBefore = on.get();
        long start = System.nanoTime();
        long end = start + (smoke ? 2_000_000L : 200_000_000L);
        long period = rate > 0 ? 1_000_000_000L / rate : 0;
        long next = start + period;
        long toggles = 0;
        while (rate >= 0 && next < end) {
            while (System.nanoTime() < next) {
                Thread.onSpinWait();
            }
            kind.site.setTarget(toggles % 2 == 0 ? NOTHING : ONE);
            toggles++;
            next = Math.max(next + period, System.nanoTime());
        }
        while (System.nanoTime() < end) {
            Thread.onSpinWait();
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        double made = calls.get() - callsBefore;
        double sawOn = on.get() - onBefore;
        stop.set(true);
        executor.join();
        return new Run(toggles / seconds, made / seconds, made == 0 ? 0 : sawOn / made);
    }

    static void execute(Kind kind, AtomicBoolean ready, AtomicBoolean stop, AtomicLong calls, AtomicLong on) {
        try {
            long[] state = {1};
            while (!stop.get()) {
                int sum = kind.executor.run(state);
                on.lazySet(on.get() + sum);
                calls.lazySet(calls.get() + BATCH);
                ready.lazySet(true);
            }
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    static double median(double[] samples) {
        double[] sorted = samples.clone();
        Arrays.sort(sorted);
        return sorted[sorted.length / 2];
    }

    static void print(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            line.append(line.length() == 0 ? "" : " ");
            line.append(word instanceof Double number ? String.format(Locale.ROOT, "%.4f", number) : word);
        }
        System.out.println(line);
    }
}
