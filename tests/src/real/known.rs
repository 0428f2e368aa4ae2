//! The code bases.

use super::{CodeBase, Counted, Way};

const SQLITE_FILE: &str = "sqlite3/sqlite3.c";

/// SQLite's amalgamation: a quarter of a million lines of C in one file.
pub const SQLITE: CodeBase = CodeBase {
    name: "sqlite",
    package: Some("libsqlite3-sys"),
    files: &[SQLITE_FILE],
    includes: &["sqlite3"],
    workload: concat!(env!("CARGO_MANIFEST_DIR"), "/real/sqlite_workload.c"),
    is_cpp: false,
    flags: &[
        "-DSQLITE_THREADSAFE=1", "-DSQLITE_DEFAULT_MEMSTATUS=0", "-DSQLITE_OMIT_LOAD_EXTENSION",
        "-DSQLITE_ENABLE_FTS5", "-DSQLITE_ENABLE_RTREE",
    ],
    opt_level: 2,
    in_slices: &[],
    libraries: &["-lm", "-lpthread"],
    made: &["posixIoFinderImpl", "nolockIoFinderImpl", "dotlockIoFinderImpl"],
    counted: &[
        Counted { file: SQLITE_FILE, name: "sqlite3_step", path: "sqlite3_step" },
        Counted { file: SQLITE_FILE, name: "sqlite3VdbeExec", path: "sqlite3VdbeExec" },
        Counted { file: SQLITE_FILE, name: "sqlite3BtreeInsert", path: "sqlite3BtreeInsert" },
        Counted { file: SQLITE_FILE, name: "sqlite3BtreeIndexMoveto", path: "sqlite3BtreeIndexMoveto" },
        Counted {
            file: SQLITE_FILE,
            name: "sqlite3VdbeRecordCompareWithSkip",
            path: "sqlite3VdbeRecordCompareWithSkip",
        },
    ],
};

/// zlib.
pub const ZLIB: CodeBase = CodeBase {
    name: "zlib",
    package: Some("libz-sys"),
    files: &[
        "src/zlib/adler32.c", "src/zlib/compress.c", "src/zlib/crc32.c", "src/zlib/deflate.c",
        "src/zlib/infback.c", "src/zlib/inffast.c", "src/zlib/inflate.c", "src/zlib/inftrees.c",
        "src/zlib/trees.c", "src/zlib/uncompr.c", "src/zlib/zutil.c",
    ],
    includes: &["src/zlib"],
    workload: concat!(env!("CARGO_MANIFEST_DIR"), "/real/zlib_workload.c"),
    is_cpp: false,
    flags: &["-DHAVE_UNISTD_H", "-DHAVE_HIDDEN"],
    opt_level: 2,
    in_slices: &[Way::EntryReturn, Way::InstrumentFunctions, Way::Hooks],
    libraries: &[],
    made: &[],
    counted: &[
        Counted { file: "src/zlib/deflate.c", name: "deflate", path: "deflate" },
        Counted { file: "src/zlib/inflate.c", name: "inflate", path: "inflate" },
        Counted { file: "src/zlib/inffast.c", name: "inflate_fast", path: "inflate_fast" },
        Counted { file: "src/zlib/inftrees.c", name: "inflate_table", path: "inflate_table" },
        Counted { file: "src/zlib/trees.c", name: "_tr_flush_block", path: "_tr_flush_block" },
    ],
};

const CLIPPER_ENGINE: &str = "clipper2c/vendor/Clipper2/CPP/Clipper2Lib/src/clipper.engine.cpp";
const CLIPPER_OFFSET: &str = "clipper2c/vendor/Clipper2/CPP/Clipper2Lib/src/clipper.offset.cpp";

/// Clipper2, a library for polygons: C++17 with templates and exceptions.
pub const CLIPPER: CodeBase = CodeBase {
    name: "clipper",
    package: Some("clipper2c-sys"),
    files: &[
        CLIPPER_ENGINE,
        CLIPPER_OFFSET,
        "clipper2c/vendor/Clipper2/CPP/Clipper2Lib/src/clipper.rectclip.cpp",
        "clipper2c/vendor/Clipper2/CPP/Clipper2Lib/src/clipper.triangulation.cpp",
    ],
    includes: &["clipper2c/vendor/Clipper2/CPP/Clipper2Lib/include"],
    workload: concat!(env!("CARGO_MANIFEST_DIR"), "/real/clipper_workload.cpp"),
    is_cpp: true,
    flags: &["-std=c++17"],
    opt_level: 2,
    in_slices: &[],
    libraries: &[],
    // Functions that run when the library is loaded.
    made: &["_GLOBAL__sub_I_", "__static_initialization_and_destruction_0"],
    counted: &[
        Counted {
            file: CLIPPER_ENGINE,
            name: "ClipperBase::ExecuteInternal",
            path: "Clipper2Lib::ClipperBase::ExecuteInternal",
        },
        Counted {
            file: CLIPPER_ENGINE,
            name: "ClipperBase::IntersectEdges",
            path: "Clipper2Lib::ClipperBase::IntersectEdges",
        },
        Counted {
            file: CLIPPER_ENGINE,
            name: "ClipperBase::InsertLocalMinimaIntoAEL",
            path: "Clipper2Lib::ClipperBase::InsertLocalMinimaIntoAEL",
        },
        Counted {
            file: CLIPPER_ENGINE,
            name: "ClipperBase::AddLocalMaxPoly",
            path: "Clipper2Lib::ClipperBase::AddLocalMaxPoly",
        },
        Counted {
            file: CLIPPER_OFFSET,
            name: "ClipperOffset::DoGroupOffset",
            path: "Clipper2Lib::ClipperOffset::DoGroupOffset",
        },
    ],
};
