#pragma once
// The block of the numerics profile. Like detail.hpp, attention/shape.hpp and dtype.hpp, this is included by the files
// compiled for one instruction set, which must take in no inline function of a library: the linker might keep their copy of
// it for everyone, and an older processor would meet instructions that it does not have.

#include <cstddef>

namespace verbatim::kernels {

/// K is cut at absolute multiples of this, and so are the positions of attention and all sums (numerics section 2).
inline constexpr std::size_t kBlock = 256;

/// Rows of weights that lie together in PackedWeights.
inline constexpr std::size_t kPanelRows = 16;

}  // namespace verbatim::kernels
