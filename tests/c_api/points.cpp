// Hand-placed probes in C++11.
#include "shared.h"

#include <stdexcept>
#include <string>

extern "C" {
unsigned long other_file(unsigned long x) {
    return in_inline(x) + static_cast<unsigned long>(in_template(static_cast<int>(x)));
}
unsigned long evaluations(unsigned long x);
unsigned long templates(unsigned long x);
unsigned long scopes(unsigned long x);
unsigned long temporaries(unsigned long x);
unsigned long exceptions(unsigned long x);
unsigned long lambdas(unsigned long x);
}

unsigned long templates(unsigned long x) {
    long sum = in_template(static_cast<long>(x)) + in_template(static_cast<int>(x)) + in_template(static_cast<short>(x));
    return static_cast<unsigned long>(sum) + in_inline(x) + in_header(x) + evaluations(x);
}

namespace {
unsigned long alive = 0;

struct Guard {
    explicit Guard(unsigned long value) : value(value) {
        PROBE_U64("constructor", value);
        alive += value;
    }
    ~Guard() {
        PROBE_U64("destructor", value);
        alive -= value;
    }
    unsigned long value;
};

__attribute__((noinline)) unsigned long throws(unsigned long x) {
    Guard guard(x);
    PROBE("before_throw");
    if (x % 2 == 1) throw std::runtime_error("odd");
    return x;
}
}  // namespace

// Destructors between the probes of one function.
unsigned long scopes(unsigned long x) {
    Guard outer(1);
    PROBE("outer");
    for (unsigned long i = 0; i < x % 8; i++) {
        Guard inner(2);
        if (i == 1) continue;
        PROBE_U64("inner", alive);
    }
    return alive;
}

// The string must live until the hit has been delivered.
unsigned long temporaries(unsigned long x) {
    PROBE_STR("temporary", ("a string that is too long for its own object, " + std::to_string(x)).c_str());
    return x;
}

unsigned long exceptions(unsigned long x) {
    try {
        return throws(x) + alive;
    } catch (const std::exception &error) {
        PROBE_STR("caught", error.what());
        return 1000 + alive;
    }
}

unsigned long lambdas(unsigned long x) {
    auto add = [&](unsigned long y) {
        PROBE_U64("lambda", x + y);
        return x + y;
    };
    return add(1) * add(2);
}
