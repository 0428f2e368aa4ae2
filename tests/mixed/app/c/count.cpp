#include "count.hpp"

namespace text {

std::size_t count(const char *text) {
    std::size_t words = 0;
    bool is_between = true;
    for (; *text; text++) {
        bool space = is_space(*text);
        words += is_between && !space;
        is_between = space;
    }
    return words;
}

/* Nobody calls this. */
std::size_t count_lines(const char *text) {
    std::size_t lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

} // namespace text
