// Coroutines, where the compiler has them: a body in parts, entered and left at each suspension.
#include "torture.h"

#if defined(__cpp_impl_coroutine) && __has_include(<coroutine>)
#include <coroutine>

namespace coroutines {

COUNTED_AS(step_count, "coroutines::step");
NOINLINE long step(long x) { ENTER(step_count); return x * 3 + 1; }

struct Generator {
    struct promise_type {
        long value = 0;
        Generator get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(long next) { value = next; return {}; }
        void return_void() {}
        void unhandled_exception() { throw; }
    };
    std::coroutine_handle<promise_type> handle;
};

Generator numbers(long from, long count) {
    for (long at = 0; at < count; at++) {
        co_yield step(from + at);
        if (at == 6) throw from;
    }
}

COUNTED_AS(drain, "coroutines::drain");
NOINLINE long drain(long from, long count) {
    ENTER(drain);
    Generator generator = numbers(from, count);
    long sum = 0;
    try {
        for (generator.handle.resume(); !generator.handle.done(); generator.handle.resume())
            sum = sum * 5 + generator.handle.promise().value;
    } catch (long thrown) {
        sum -= thrown;
    }
    generator.handle.destroy();
    return sum;
}

} // namespace coroutines

COUNTED(coroutines_run);
extern "C" void coroutines_run() {
    ENTER(coroutines_run);
    for (long count = 0; count < 10; count++) NOTE(coroutines::drain(count * 2, count));
}
#else
extern "C" void coroutines_run() {}
#endif
