// A function that throws for odd numbers.
#include <stdexcept>

extern "C" int risky(int number);

extern "C" int risky(int number) {
    if (number % 2) throw std::runtime_error("odd");
    return number;
}
