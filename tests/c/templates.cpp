#include "templates.h"

#define IN_HEADER(name, path) \
    __attribute__((section("counters"), used)) struct counter name##_counter = {path, "templates.h", 0, 0, 0, EXACT, {0, 0}};
IN_HEADER(push_int, "templates::Stack<int>::push")
IN_HEADER(push_double, "templates::Stack<double>::push")
IN_HEADER(sum_int, "templates::sum<int,3>")
IN_HEADER(square, "templates::square")
IN_HEADER(of_class, "templates::Class::of_class")

COUNTED(templates_run);
extern "C" void templates_run() {
    using namespace templates;
    ENTER(templates_run);
    Stack<int> ints;
    Stack<double> doubles;
    for (int at = 0; at < 9; at++) { ints.push(at); doubles.push(at * 1.5); }
    NOTE((sum<int, 3>(ints)));
    NOTE(doubles.items[7]);
    NOTE(square(OPAQUE(12L)));
    NOTE(Class{3}.of_class(OPAQUE(4L)));
    NOTE(other(5));
}
