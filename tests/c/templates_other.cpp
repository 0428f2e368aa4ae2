#include "templates.h"

namespace templates {

COUNTED_AS(other_count, "templates::other");
long other(long x) {
    ENTER(other_count);
    Stack<int> ints;
    Stack<double> doubles;
    for (int at = 0; at < 7; at++) { ints.push(static_cast<int>(x) + at); doubles.push(static_cast<double>(x)); }
    return sum<int, 3>(ints) + square(OPAQUE(x)) + Class{x}.of_class(OPAQUE(x)) + static_cast<long>(doubles.items[6]);
}

} // namespace templates
