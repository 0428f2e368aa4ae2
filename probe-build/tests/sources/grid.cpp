#include <cstdio>
#include <vector>

namespace grid {

struct Outside {
    int at;
};

template <typename T> class Row {
public:
    explicit Row(int size) : values(size) {}
    T &operator[](int at) {
        if (at < 0 || at >= int(values.size())) throw Outside{at};
        return values[at];
    }
    template <typename F> void each(F change) {
        for (T &value : values) value = change(value);
    }

private:
    std::vector<T> values;
};

template <typename T> __attribute__((noinline)) T sum(Row<T> &row, int count) {
    T sum = T();
    for (int at = 0; at < count; at++) sum += row[at];
    return sum;
}

} // namespace grid

int main() {
    grid::Row<int> ints(10);
    grid::Row<double> reals(4);
    int next = 1;
    ints.each([&](int) { return next *= 3; });
    reals.each([&](double) { return next / 7.0; });
    std::printf("%d %.3f\n", grid::sum(ints, 10), grid::sum(reals, 4));
    try {
        grid::sum(reals, 5);
    } catch (const grid::Outside &outside) {
        std::printf("outside %d\n", outside.at);
    }
    return 0;
}
