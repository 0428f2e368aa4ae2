#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
namespace geo {
template <class T> struct Stack {
    std::vector<T> all;
    explicit Stack(int n) { all.reserve(n); }
    virtual ~Stack() {}
    void push(T t) { all.push_back(t); }
};
}
struct Base { virtual ~Base(); virtual int run(int) = 0; };
Base::~Base() {}
struct Other { int k; virtual int other(int x) { return x + k; } };
struct Derived : Other, Base {
    std::string s;
    explicit Derived(std::string t) : s(std::move(t)) {}
    int run(int x) override {
        if (x < 0) throw std::out_of_range(s);
        return x + static_cast<int>(s.size());
    }
};
static std::map<std::string, std::unique_ptr<Base>> known;
int find(const std::string &name, int x) {
    try {
        auto it = known.find(name);
        if (it == known.end()) it = known.emplace(name, std::make_unique<Derived>(name)).first;
        return it->second->run(x);
    } catch (const std::out_of_range &) {
        return -1;
    }
}
int push(int x) {
    geo::Stack<int> stack(3);
    stack.push(x);
    auto check = [&](int y) { if (y > 3) throw std::runtime_error("x"); return y + x; };
    return check(x);
}
