// Exceptions through probed frames, and out of them.
#include <exception>
#include <stdexcept>

#include "torture.h"

namespace exceptions {

static thread_local long destroyed;
COUNTED_AS(guard_drop, "exceptions::Guard::drop");
struct Guard {
    long weight;
    NOINLINE void drop() { ENTER(guard_drop); destroyed = destroyed * 3 + weight; }
    ~Guard() { drop(); }
};

COUNTED_AS(thrower, "exceptions::thrower");
NOINLINE long thrower(long x) {
    ENTER(thrower);
    if (x == 0) { ADD(thrower, unwound); throw 42; }
    if (x == 1) { ADD(thrower, unwound); throw std::runtime_error("one"); }
    return x * 2;
}

static COUNTER_(tail_counter, "exceptions::tail", TAIL);
NOINLINE long tail(long x) {
    ENTER(tail);
    if (x < 2) ADD(tail, unwound);
    return thrower(x);
}

COUNTED_AS(deep, "exceptions::deep");
NOINLINE long deep(long depth, long x) {
    ENTER(deep);
    Guard guard{depth};
    if (x < 2) ADD(deep, unwound);
    if (depth == 0) return tail(x) + 1;
    return deep(depth - 1, x) + depth;
}

COUNTED_AS(catches, "exceptions::catches");
NOINLINE long catches(long depth, long x) {
    ENTER(catches);
    try {
        return deep(depth, x);
    } catch (int value) {
        return value + depth;
    } catch (const std::exception &error) {
        return error.what()[0] + depth;
    }
}

COUNTED_AS(rethrows, "exceptions::rethrows");
NOINLINE long rethrows(long x) {
    ENTER(rethrows);
    ADD(rethrows, unwound);
    try {
        return deep(2, x);
    } catch (...) {
        destroyed ^= 0x77;
        throw;
    }
}

COUNTED_AS(translates, "exceptions::translates");
NOINLINE long translates(long x) {
    ENTER(translates);
    try {
        try {
            return rethrows(x);
        } catch (int value) {
            Guard guard{9};
            throw std::logic_error("logic");
        }
    } catch (const std::logic_error &error) {
        return error.what()[1];
    } catch (const std::exception &error) {
        return error.what()[2];
    }
}

COUNTED_AS(never_throws, "exceptions::never_throws");
NOINLINE long never_throws(long x) noexcept {
    ENTER(never_throws);
    try {
        return tail(x);
    } catch (...) {
        return -x - 1;
    }
}

// Members are destroyed when a constructor throws.
COUNTED_AS(fragile_make, "exceptions::Fragile::make");
struct Fragile {
    Guard first, second;
    long value;
    explicit Fragile(long x) try : first{1}, second{2}, value(tail(x)) {
    } catch (int) {
        destroyed += 1000;
    }
    static NOINLINE long make(long x) {
        ENTER(fragile_make);
        if (x < 2) ADD(fragile_make, unwound);
        Fragile fragile(x);
        return fragile.value;
    }
};

COUNTED_AS(makes, "exceptions::makes");
NOINLINE long makes(long x) {
    ENTER(makes);
    try {
        return Fragile::make(x);
    } catch (...) {
        return 77;
    }
}

// Kept, and thrown elsewhere.
COUNTED_AS(keep, "exceptions::keep");
NOINLINE std::exception_ptr keep(long x) {
    ENTER(keep);
    try {
        tail(x);
    } catch (...) {
        return std::current_exception();
    }
    return nullptr;
}
COUNTED_AS(release, "exceptions::release");
NOINLINE long release(const std::exception_ptr &kept) {
    ENTER(release);
    try {
        if (kept) std::rethrow_exception(kept);
        return 5;
    } catch (int value) {
        return value * 2;
    } catch (const std::exception &error) {
        return error.what()[0] * 2;
    }
}

// Destructors that call while an exception is on its way.
COUNTED_AS(busy_count, "exceptions::busy");
NOINLINE long busy(long x) { ENTER(busy_count); return x + std::uncaught_exceptions(); }
COUNTED_AS(while_unwinding, "exceptions::while_unwinding");
NOINLINE long while_unwinding(long x) {
    ENTER(while_unwinding);
    struct Busy {
        ~Busy() {
            destroyed += busy(100);
            destroyed += catches(1, 0);
        }
    };
    try {
        Busy one;
        return tail(x);
    } catch (...) {
        return 6;
    }
}

} // namespace exceptions

COUNTED(exceptions_run);
extern "C" void exceptions_run() {
    using namespace exceptions;
    ENTER(exceptions_run);
    destroyed = 0;
    for (long x = 0; x < 4; x++) {
        for (long depth = 0; depth < 6; depth++) NOTE(catches(depth, x));
        NOTE(never_throws(x));
        NOTE(makes(x));
        NOTE(release(keep(x)));
        NOTE(while_unwinding(x));
        NOTE(destroyed);
    }
    for (long x = 0; x < 2; x++) NOTE(translates(x));
    NOTE(destroyed);
}
