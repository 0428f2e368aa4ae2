// A class whose functions are called on objects that the test knows.
#include <cstdint>

#include "torture.h"

static COUNTER_(members_deposits, "members_deposits", EXACT);

namespace bank {

class Account {
public:
    __attribute__((noinline)) int64_t deposit(int64_t amount, double rate) {
        __atomic_fetch_add(&members_deposits.entries, 1, __ATOMIC_RELAXED);
        return balance += amount + (int64_t)rate;
    }

    __attribute__((noinline)) static bool is_valid(int32_t number) {
        __asm__ volatile("");
        return number > 0;
    }

    virtual __attribute__((noinline)) void close(const char *reason) { balance = reason[0]; }

private:
    int64_t balance = 0;
};

} // namespace bank

static bank::Account accounts[2];

extern "C" uint64_t members_address(uint64_t number) { return (uint64_t)&accounts[number]; }

extern "C" uint64_t members_play(uint64_t rounds) {
    uint64_t sum = 0;
    for (uint64_t round = 0; round < rounds; round++) {
        bank::Account *volatile account = &accounts[round % 2];
        sum += (uint64_t)account->deposit((int64_t)round, 2.5);
        sum += bank::Account::is_valid((int32_t)round);
        account->close("z");
    }
    return sum;
}
