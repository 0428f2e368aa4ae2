#include "count.hpp"

extern "C" std::size_t words(const char *text) {
    while (text::is_space(*text)) text++;
    return text::count(text);
}
