/* A typical use of SQLite: inserts, indexed queries, a join, changes, text. Executes the same
   statements with the same values each time, and makes a digest of every result. */
#include "sqlite3.h"

#include <stdint.h>
#include <stdio.h>

#define EXPORTED __attribute__((visibility("default")))

struct run {
    sqlite3 *database;
    uint64_t digest;
    uint64_t random;
};

static uint64_t next_random(struct run *run) {
    run->random ^= run->random << 13;
    run->random ^= run->random >> 7;
    run->random ^= run->random << 17;
    return run->random;
}

static void digest_bytes(struct run *run, const unsigned char *bytes, int length) {
    for (int at = 0; at < length; at++) {
        run->digest = (run->digest ^ bytes[at]) * 0x100000001b3u;
    }
}

static int failed(struct run *run, const char *what) {
    fprintf(stderr, "%s: %s\n", what, sqlite3_errmsg(run->database));
    return 0;
}

static int execute(struct run *run, const char *sql) {
    return sqlite3_exec(run->database, sql, 0, 0, 0) == SQLITE_OK || failed(run, sql);
}

static sqlite3_stmt *prepared(struct run *run, const char *sql) {
    sqlite3_stmt *statement = 0;
    if (sqlite3_prepare_v2(run->database, sql, -1, &statement, 0) != SQLITE_OK) {
        failed(run, sql);
    }
    return statement;
}

/* Steps to the end; every column of every row goes into the digest. */
static int drain(struct run *run, sqlite3_stmt *statement) {
    int result;
    while ((result = sqlite3_step(statement)) == SQLITE_ROW) {
        for (int column = 0; column < sqlite3_column_count(statement); column++) {
            const unsigned char *text = sqlite3_column_text(statement, column);
            digest_bytes(run, text, sqlite3_column_bytes(statement, column));
        }
    }
    sqlite3_reset(statement);
    return result == SQLITE_DONE || failed(run, sqlite3_sql(statement));
}

static int insert_rows(struct run *run, uint64_t rows) {
    sqlite3_stmt *statement = prepared(run, "INSERT INTO item(id, grp, name, price) VALUES(?1, ?2, ?3, ?4)");
    if (!statement || !execute(run, "BEGIN")) {
        return 0;
    }
    for (uint64_t row = 1; row <= rows; row++) {
        char name[40];
        uint64_t random = next_random(run);
        int length = snprintf(name, sizeof name, "item-%llx", (unsigned long long)(random >> 24));
        sqlite3_bind_int64(statement, 1, (sqlite3_int64)row);
        sqlite3_bind_int64(statement, 2, (sqlite3_int64)(random % 1000));
        sqlite3_bind_text(statement, 3, name, length, SQLITE_TRANSIENT);
        sqlite3_bind_double(statement, 4, (double)(random % 100000) / 64.0);
        if (!drain(run, statement)) {
            return 0;
        }
    }
    sqlite3_finalize(statement);
    return execute(run, "COMMIT");
}

static int query(struct run *run, uint64_t queries) {
    sqlite3_stmt *range = prepared(run, "SELECT count(*), sum(price) FROM item WHERE grp = ?1 AND name >= ?2");
    sqlite3_stmt *row = prepared(run, "SELECT name, price, upper(name) FROM item WHERE id = ?1");
    if (!range || !row) {
        return 0;
    }
    for (uint64_t nth = 0; nth < queries; nth++) {
        sqlite3_bind_int64(range, 1, (sqlite3_int64)(next_random(run) % 1000));
        sqlite3_bind_text(range, 2, nth % 2 ? "item-8" : "item-c", -1, SQLITE_STATIC);
        sqlite3_bind_int64(row, 1, (sqlite3_int64)(1 + next_random(run) % (10 * queries)));
        if (!drain(run, range) || !drain(run, row)) {
            return 0;
        }
    }
    sqlite3_finalize(range);
    sqlite3_finalize(row);
    return 1;
}

static int report(struct run *run) {
    static const char *const STATEMENTS[] = {
        "SELECT grp.title, count(*), sum(item.price) FROM item JOIN grp ON grp.id = item.grp"
        " GROUP BY grp.id ORDER BY sum(item.price) DESC, grp.id LIMIT 100",
        "UPDATE item SET price = price * 1.5 WHERE grp < 20",
        "DELETE FROM item WHERE grp >= 990",
        "SELECT DISTINCT substr(name, 1, 8) AS head FROM item WHERE name LIKE 'item-7f%' ORDER BY head",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)"
        " SELECT sum(i), printf('%.3f|%08d|%s', avg(i), max(i), hex(min(i))) FROM n",
        "SELECT grp, max(price), rank() OVER (ORDER BY max(price) DESC, grp) FROM item GROUP BY grp LIMIT 50",
        "PRAGMA integrity_check",
    };
    for (unsigned nth = 0; nth < sizeof STATEMENTS / sizeof *STATEMENTS; nth++) {
        sqlite3_stmt *statement = prepared(run, STATEMENTS[nth]);
        if (!statement || !drain(run, statement)) {
            return 0;
        }
        sqlite3_finalize(statement);
    }
    return 1;
}

static int fill_groups(struct run *run) {
    return execute(run, "CREATE TABLE item(id INTEGER PRIMARY KEY, grp INTEGER, name TEXT, price REAL)")
        && execute(run, "CREATE TABLE grp(id INTEGER PRIMARY KEY, title TEXT UNIQUE)")
        && execute(run, "CREATE INDEX by_group ON item(grp, name)")
        && execute(run, "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)"
                        " INSERT INTO grp SELECT i, 'group ' || i FROM n");
}

/* The digest of a database in memory with this many rows; 0 if anything fails. */
EXPORTED uint64_t workload(uint64_t rows) {
    struct run run = {0, 0xcbf29ce484222325u, 0x9e3779b97f4a7c15u};
    if (sqlite3_open(":memory:", &run.database) != SQLITE_OK) {
        return 0;
    }
    int is_done = fill_groups(&run) && insert_rows(&run, rows) && query(&run, rows / 10) && report(&run);
    sqlite3_close(run.database);
    return is_done ? run.digest : 0;
}
