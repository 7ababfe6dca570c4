#pragma once
// Tiles: how a log's tree and leaves lie in files (C2SP tlog-tiles, height 8).
//
//   tile/<L>/<N>[.p/<W>]        hashes: 256 of them, or W at the right edge
//   tile/entries/<N>[.p/<W>]    the leaves of tile/0/<N>, each after its length (16 bits, big-endian)

#include "schema/digest.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::audit {

inline constexpr std::uint64_t kTileWidth = 256;

/// One tile, or the entry bundle beside a tile of level 0.
struct TileName {
  int level = 0;
  std::uint64_t index = 0;
  std::uint64_t width = kTileWidth;  ///< 1..256
  friend bool operator==(const TileName&, const TileName&) = default;
};

/// "x001/x234/067"
[[nodiscard]] std::string tile_number(std::uint64_t n);
[[nodiscard]] std::string tile_path(const TileName& name);
[[nodiscard]] std::string entries_path(std::uint64_t index, std::uint64_t width);

/// The names that tile_path() and entries_path() give, and nothing else. An entry bundle's has level 0.
[[nodiscard]] std::optional<TileName> parse_tile_path(std::string_view path);
[[nodiscard]] std::optional<TileName> parse_entries_path(std::string_view path);

/// Every tile of a tree of `size` leaves, level by level: full ones, then the partial one. None is empty.
[[nodiscard]] std::vector<TileName> tiles_of(std::uint64_t size);

/// Appends one leaf to a bundle. The leaf has at most 65,535 bytes.
void append_entry(std::string& bundle, std::string_view leaf);
/// The leaves of a bundle. `invalid_input` if a length goes past the end.
[[nodiscard]] Result<std::vector<std::string_view>> split_entries(std::string_view bundle);

/// The hashes of a tile. `invalid_input` unless it has exactly `width` of them.
[[nodiscard]] Result<std::vector<Digest>> split_tile(std::string_view bytes, std::uint64_t width);

}  // namespace verbatim::audit
