#include <cstdio>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace geo {

struct Shape {
    virtual ~Shape() {}
    virtual double area() const = 0;
};

struct Square : Shape {
    explicit Square(double side) : side(side) {
        if (side < 0) throw std::invalid_argument("side " + std::to_string(side));
    }
    double area() const override { return side * side; }
    double side;
};

template <typename T> class Stack {
public:
    __attribute__((noinline)) void push(T value) { values.push_back(value); }
    __attribute__((noinline)) T pop() {
        if (values.empty()) throw std::out_of_range("empty");
        T last = values.back();
        values.pop_back();
        return last;
    }

private:
    std::vector<T> values;
};

} // namespace geo

__attribute__((noinline)) static double measure(double side) {
    geo::Square square(side);
    const geo::Shape &shape = square;
    return shape.area();
}

static int careful(double side) {
    try {
        std::printf("%.2f\n", measure(side));
        return 0;
    } catch (const std::exception &error) {
        std::printf("caught %s\n", error.what());
        return 1;
    }
}

int main() {
    geo::Stack<int> ints;
    geo::Stack<std::string> texts;
    std::map<std::string, int> counts;
    for (int i = 0; i < 50; i++) {
        ints.push(i * i);
        texts.push(std::to_string(i));
        counts[std::to_string(i % 7)] += i;
    }
    std::function<int(int)> add = [&](int x) { return x + ints.pop(); };
    std::printf("%d %s %d\n", add(add(1)), texts.pop().c_str(), counts["3"]);
    int caught = careful(1.5) + careful(-2);
    try {
        geo::Stack<int> none;
        none.pop();
    } catch (const std::out_of_range &error) {
        std::printf("%s %d\n", error.what(), caught);
    }
    return 0;
}
