#pragma once
#include <cstddef>

namespace text {

/* An instance in each of two files; one is left by the linker. */
template <typename T> __attribute__((noinline)) bool is_space(T character) {
    return character == ' ' || character == '\t';
}

std::size_t count(const char *text);
std::size_t count_lines(const char *text);

} // namespace text
