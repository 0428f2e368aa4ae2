// Members of every kind, also compiler-made: constructors, destructors, thunks, closures, guards.
#include "torture.h"

namespace objects {

static thread_local long trace;
static NOINLINE void add(long x) { trace = trace * 7 + x; }

#define STRUCTOR_(name, path) static COUNTER_(name##_counter, path, STRUCTOR)

// Constructors and destructors, complete and of bases.
STRUCTOR_(base_new, "objects::Base::Base");
STRUCTOR_(base_drop, "objects::Base::~Base");
COUNTED_AS(base_value, "objects::Base::value");
COUNTED_AS(base_self, "objects::Base::self");
struct Base {
    long x;
    NOINLINE explicit Base(long x) : x(x) { ENTER(base_new); add(1); }
    NOINLINE virtual ~Base() { ENTER(base_drop); add(2); }
    NOINLINE virtual long value(long y) const { ENTER(base_value); return x + y; }
    NOINLINE virtual const Base *self() const { ENTER(base_self); return this; }
};
COUNTED_AS(side_other, "objects::Side::other");
struct Side {
    long y = 5;
    virtual ~Side() = default;
    NOINLINE virtual long other(double d) { ENTER(side_other); return y + static_cast<long>(d * 2); }
};
COUNTED_AS(both_value, "objects::Both::value");
COUNTED_AS(both_other, "objects::Both::other");
COUNTED_AS(both_self, "objects::Both::self");
struct Both : Base, Side {
    long z;
    explicit Both(long x) : Base(x), z(x * 2) {}
    NOINLINE long value(long y) const override { ENTER(both_value); return x * y + z; }
    // Through Side it is reached by a thunk, which moves `this`.
    NOINLINE long other(double d) override { ENTER(both_other); return z + y + static_cast<long>(d); }
    NOINLINE const Both *self() const override { ENTER(both_self); return this; }
};
// With a virtual base, the offset is looked up at run time; results are moved, too.
STRUCTOR_(diamond_new, "objects::Diamond::Diamond");
COUNTED_AS(diamond_value, "objects::Diamond::value");
COUNTED_AS(diamond_self, "objects::Diamond::self");
struct Left : virtual Base { NOINLINE Left() : Base(3) { add(3); } };
struct Right : virtual Base { NOINLINE Right() : Base(4) { add(4); } };
struct Diamond : Left, Right {
    NOINLINE Diamond() : Base(5) { ENTER(diamond_new); add(5); }
    NOINLINE long value(long y) const override { ENTER(diamond_value); return y * 100 + x; }
    NOINLINE const Diamond *self() const override { ENTER(diamond_self); return this; }
};

COUNTED_AS(call_base, "objects::call");
NOINLINE long call(const Base &base, Side *side) {
    ENTER(call_base);
    return base.value(3) + (side ? side->other(1.5) : 0) + (base.self() == &base);
}

// Members that are reached by a pointer, operators, conversions, results in memory.
struct Triple { long a, b, c; };
COUNTED_AS(number_plus, "objects::Number::operator+");
COUNTED_AS(number_call, "objects::Number::operator()");
COUNTED_AS(number_double, "objects::Number::operatordouble");
COUNTED_AS(number_triple, "objects::Number::triple");
struct Number {
    long x;
    NOINLINE Number operator+(const Number &other) const { ENTER(number_plus); return {x + other.x}; }
    NOINLINE long operator()(long y, double z) { ENTER(number_call); return x += y + static_cast<long>(z); }
    NOINLINE explicit operator double() const { ENTER(number_double); return static_cast<double>(x) / 2; }
    NOINLINE Triple triple(long a) const { ENTER(number_triple); return {x, a, x * a}; }
};

// Closures.
COUNTED_AS(apply_count, "objects::apply");
NOINLINE long apply(long (*function)(long), long x) { ENTER(apply_count); return function(x); }
COUNTED_AS(closures, "objects::closures");
NOINLINE long closures(long x) {
    ENTER(closures);
    long y = x * 2;
    auto captures = [&](long z) __attribute__((noinline)) { y += z; return y * x; };
    auto generic = [x](auto z) __attribute__((noinline)) { return static_cast<long>(z * 2) + x; };
    return captures(3) + captures(4) + generic(2.5) + generic(7) + apply([](long z) { return z * z; }, y);
}

// Values that are made once under a guard, once for each thread, or before all else.
COUNTED_AS(make_once, "objects::make_once");
NOINLINE long make_once(long x) { ENTER(make_once); return x * 3; }
COUNTED_AS(guarded, "objects::guarded");
NOINLINE long guarded(long x) {
    ENTER(guarded);
    static const long once = make_once(OPAQUE(x));
    return once + x;
}
COUNTED_AS(make_local, "objects::make_local");
NOINLINE long make_local() { ENTER(make_local); return 17; }
thread_local long local = make_local();
COUNTED_AS(use_local, "objects::use_local");
NOINLINE long use_local(long x) { ENTER(use_local); return local += x; }
static const long before_main = make_once(11);

} // namespace objects

COUNTED(objects_run);
extern "C" void objects_run() {
    using namespace objects;
    ENTER(objects_run);
    trace = 1;
    {
        Base base(1);
        Both both(2);
        NOTE(call(base, nullptr));
        NOTE(call(both, &both));
        Side *volatile side = &both;
        NOTE(side->other(4.5));
        Side plain;
        side = &plain;
        NOTE(side->other(0.5));
        Base *volatile heap = new Both(7);
        NOTE(heap->value(2));
        delete heap;
    }
    {
        Diamond diamond;
        Left *volatile left = &diamond;
        Right *volatile right = &diamond;
        NOTE(left->value(2) + right->value(3));
        NOTE(call(diamond, nullptr));
        NOTE(left->self() == static_cast<Base *>(&diamond));
    }
    NOTE(trace);
    Number one{20}, two{22};
    Triple (Number::*volatile member)(long) const = &Number::triple;
    Triple triple = (one.*member)(6);
    NOTE(triple.a); NOTE(triple.b); NOTE(triple.c);
    NOTE((one + two).x); NOTE(one(1, 2.5)); NOTE(static_cast<double>(two));
    NOTE(closures(OPAQUE(5L)));
    // The first call has made it.
    long first = guarded(4);
    NOTE(guarded(4) == first);
    long before = use_local(0);
    NOTE(use_local(3) - before); NOTE(before_main);
}
