// A typical use of Clipper2: clips, offsets, sums and triangulates polygons, in integers and in
// floating point, and catches exceptions that the library throws through several of its frames.
#include "clipper2/clipper.h"
#include "clipper2/clipper.triangulation.h"

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace real {

class Digest {
public:
    void add(std::uint64_t value) { digest_ = (digest_ ^ value) * 0x100000001b3u; }

    template <typename T> void add(const Clipper2Lib::Paths<T> &paths) {
        for (const auto &path : paths) {
            for (const auto &point : path) {
                add(static_cast<std::uint64_t>(static_cast<std::int64_t>(point.x * 16)));
                add(static_cast<std::uint64_t>(static_cast<std::int64_t>(point.y * 16)));
            }
            add(path.size());
        }
    }

    std::uint64_t value() const { return digest_; }

private:
    std::uint64_t digest_ = 0xcbf29ce484222325u;
};

class Random {
public:
    int below(int end) {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return static_cast<int>(state_ % static_cast<std::uint64_t>(end));
    }

private:
    std::uint64_t state_ = 0x9e3779b97f4a7c15u;
};

template <typename T> Clipper2Lib::Paths<T> polygons(Random &random, int count, int corners) {
    Clipper2Lib::Paths<T> paths;
    for (int nth = 0; nth < count; nth++) {
        Clipper2Lib::Path<T> path;
        for (int corner = 0; corner < corners; corner++) {
            const int x = random.below(1000), y = random.below(1000);
            path.emplace_back(x, y);
        }
        paths.push_back(std::move(path));
    }
    return paths;
}

// How many times the library throws, of three tries that it must refuse, at different depths.
int refusals() {
    const Clipper2Lib::PathsD triangle{Clipper2Lib::MakePathD({0, 0, 10, 0, 5, 10})};
    const std::function<void()> tries[] = {
        [] { Clipper2Lib::MakePath(std::vector<int>{1, 2, 3}); },
        [&] { Clipper2Lib::Union(triangle, Clipper2Lib::FillRule::NonZero, 99); },
        [&] { Clipper2Lib::InflatePaths(triangle, 1.0, Clipper2Lib::JoinType::Round, Clipper2Lib::EndType::Polygon, 2.0, -99); },
    };
    int thrown = 0;
    for (const auto &attempt : tries) {
        try {
            attempt();
        } catch (const std::exception &refused) {
            thrown += std::string(refused.what()).empty() ? 0 : 1;
        }
    }
    return thrown;
}

void clip(Digest &digest, Random &random) {
    using namespace Clipper2Lib;
    const Paths64 subject = polygons<std::int64_t>(random, 3, 20), window = polygons<std::int64_t>(random, 2, 12);
    digest.add(Intersect(subject, window, FillRule::EvenOdd));
    digest.add(Xor(subject, window, FillRule::NonZero));
    digest.add(InflatePaths(subject, 7.5, JoinType::Round, EndType::Polygon));
    digest.add(RectClip(Rect64(200, 200, 700, 800), subject));
    digest.add(SimplifyPaths(subject, 3.0));
    digest.add(MinkowskiSum(window[0], subject[0], true));

    const PathsD exact = polygons<double>(random, 2, 16);
    digest.add(Difference(exact, polygons<double>(random, 2, 9), FillRule::NonZero, 3));
    digest.add(static_cast<std::uint64_t>(static_cast<std::int64_t>(Area(exact))));

    PolyTree64 tree;
    Clipper64 clipper;
    clipper.AddSubject(subject);
    clipper.AddClip(window);
    clipper.Execute(ClipType::Union, FillRule::EvenOdd, tree);
    digest.add(PolyTreeToPaths64(tree));

    Paths64 triangles;
    digest.add(static_cast<std::uint64_t>(Triangulate(Paths64{Ellipse(Point64(0, 0), 900, 500, 24)}, triangles)));
    digest.add(triangles);
}

} // namespace real

// The digest of this many rounds; 0 if a refusal is missing, or anything else is thrown.
extern "C" __attribute__((visibility("default"))) std::uint64_t workload(std::uint64_t rounds) {
    try {
        real::Digest digest;
        real::Random random;
        for (std::uint64_t round = 0; round < rounds; round++) {
            real::clip(digest, random);
            if (real::refusals() != 3) {
                return 0;
            }
        }
        return digest.value();
    } catch (...) {
        return 0;
    }
}
