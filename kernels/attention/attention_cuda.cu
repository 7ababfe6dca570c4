// A block of threads has up to 8 queries that read the same keys and values. For a page: each thread scores one of the 256
// keys for all queries; maxima are order-free; one thread a query sums the exponentials in rising order, while the others
// run the chains over the values, one element of the head each. Pages are merged in rising order, at once or by a second
// kernel.

#include "kernels/attention/attention_cuda.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/elementary/elementary_cuda.cuh"

namespace verbatim::kernels::cuda {

namespace {

constexpr unsigned kQueries = 8;
constexpr unsigned kWarps = kBlock / 32;     // a thread a key
constexpr unsigned kSumLanes = kBlock - 32;  // the last warp's: least busy with values

struct Slots {
  unsigned begin, end;  // allowed, of a page
};
__device__ inline Slots allowed_slots(std::size_t position, std::size_t window, std::size_t page) {
  const std::size_t first = window != 0 && position >= window ? position - window + 1 : 0;
  const std::size_t base = page * kBlock;
  const std::size_t begin = first > base ? first - base : 0;
  const std::size_t end = position < base ? 0 : position - base + 1;
  const Slots slots{static_cast<unsigned>(begin < kBlock ? begin : kBlock),
                    static_cast<unsigned>(end < kBlock ? end : kBlock)};
  return slots.begin < slots.end ? slots : Slots{0, 0};
}

/// Of one query and page, in scratch.
struct Part {
  float* stats;  // m_b, l_b
  float* o;      // (head_dim)
};
__device__ inline Part part_of(const AttentionArgs& a, std::size_t row, std::size_t head,
                               std::size_t page) {
  const std::size_t i = (row * a.shape.heads + head) * a.pages_max + page;
  float* stats = a.scratch + i * (2 + a.shape.head_dim);
  return {stats, stats + 2};
}

/// Grid: (tiles, kv_heads, pages or 1). `split`: the page is blockIdx.z, its results go to scratch.
template <bool split>
__global__ void __launch_bounds__(kBlock) attention_kernel(AttentionArgs a) {
  VERBATIM_SHARED_ARRAY(float, q_block, kQueries* kBlock);      // (query, dimension of a block)
  VERBATIM_SHARED_ARRAY(float, e_page, kBlock* kQueries);       // (key, query)
  VERBATIM_SHARED_ARRAY(float, warp_maxima, kWarps* kQueries);  // (warp, query)
  VERBATIM_SHARED_ARRAY(float, keep, kQueries);                 // merging: factor of what was
  VERBATIM_SHARED_ARRAY(float, take, kQueries);                 // and of the page
  VERBATIM_SHARED_ARRAY(float, sum, kQueries);                  // l of all pages

  const AttentionTile tile = a.tiles[blockIdx.x];
  const std::size_t dim = a.shape.head_dim, kv_head = blockIdx.y;
  const std::size_t group = a.shape.heads / a.shape.kv_heads;
  const unsigned t = threadIdx.x;
  const auto row_of = [&](unsigned i) { return tile.first_row + (tile.first_query + i) / group; };
  const auto head_of = [&](unsigned i) { return kv_head * group + (tile.first_query + i) % group; };

  // Pages that any of the queries may see: their rows' positions rise.
  const std::size_t first_position = a.rows[row_of(0)].position;
  const std::size_t last_position = a.rows[row_of(tile.count - 1)].position;
  const std::size_t window = a.shape.window;
  const std::size_t first_key =
      window != 0 && first_position >= window ? first_position - window + 1 : 0;
  std::size_t page = split ? blockIdx.z : first_key / kBlock;
  const std::size_t page_end = split ? page + 1 : last_position / kBlock + 1;
  if (page < first_key / kBlock || page > last_position / kBlock) return;  // the whole block
  const KvPage* pages = a.rows[tile.first_row].pages;

  float o[kQueries] = {};        // of dimension t, when not split
  float m = -infinity(), l = 0;  // of one query, in the threads that sum
  bool range = false;
  bool staged = false;
  const unsigned mine = t - kSumLanes;  // that query, where it is below the count

  for (; page < page_end; ++page) {
    Slots slots[kQueries], any{kBlock, 0}, all{0, kBlock};
    for (unsigned i = 0; i < kQueries; ++i) {
      slots[i] =
          i < tile.count ? allowed_slots(a.rows[row_of(i)].position, window, page) : Slots{0, 0};
      if (i >= tile.count) continue;
      any.begin = slots[i].begin < any.begin ? slots[i].begin : any.begin;
      any.end = slots[i].end > any.end ? slots[i].end : any.end;
      all.begin = slots[i].begin > all.begin ? slots[i].begin : all.begin;
      all.end = slots[i].end < all.end ? slots[i].end : all.end;
    }

    // 1. Scores of key t.
    const bool wanted = t >= any.begin && t < any.end;
    float score[kQueries] = {};
    const float* k = pages[page].k + kv_head * dim * kBlock + t;  // (dim, 256)
    for (std::size_t d0 = 0; d0 < dim; d0 += kBlock) {
      const unsigned depth = static_cast<unsigned>(dim - d0 < kBlock ? dim - d0 : kBlock);
      if (!staged || dim > kBlock) {
        __syncthreads();  // whoever still reads queries of before
        for (unsigned i = 0; i < kQueries; ++i) {
          if (t < depth) {
            q_block[i * kBlock + t] =
                i < tile.count ? a.rows[row_of(i)].q[head_of(i) * dim + d0 + t] : 0.0f;
          }
        }
        __syncthreads();  // the queries are there
        staged = true;
      }
      if (!wanted) continue;
      float s[kQueries] = {};
      const unsigned whole = depth / 4 * 4;
      for (unsigned d = 0; d < whole; d += 4) {
        float key[4];
#pragma unroll
        for (unsigned j = 0; j < 4; ++j) key[j] = k[(d0 + d + j) * kBlock];
#pragma unroll
        for (unsigned i = 0; i < kQueries; ++i) {
          const float4 q = load4(q_block + i * kBlock + d);
          s[i] = rn::fma(q.x, key[0], s[i]);
          s[i] = rn::fma(q.y, key[1], s[i]);
          s[i] = rn::fma(q.z, key[2], s[i]);
          s[i] = rn::fma(q.w, key[3], s[i]);
        }
      }
      for (unsigned d = whole; d < depth; ++d) {
        const float key = k[(d0 + d) * kBlock];
#pragma unroll
        for (unsigned i = 0; i < kQueries; ++i) s[i] = rn::fma(q_block[i * kBlock + d], key, s[i]);
      }
#pragma unroll
      for (unsigned i = 0; i < kQueries; ++i) score[i] = rn::add(score[i], s[i]);
    }

    // 2. Maxima over allowed keys. A NaN is passed over, as where a chain compares.
#pragma unroll
    for (unsigned i = 0; i < kQueries; ++i) {
      float x = -infinity();
      if (t >= slots[i].begin && t < slots[i].end) {
        score[i] = rn::mul(score[i], a.shape.scale);
        if (a.shape.softcap != 0) score[i] = softcap(score[i], a.shape.softcap);
        x = score[i] > x ? score[i] : x;
      }
      x = warp_max(x);
      if (t % 32 == 0) warp_maxima[t / 32 * kQueries + i] = x;
    }
    __syncthreads();  // the warps' maxima are there; e of the page before has been read

    // 3. Exponentials.
    float m_page[kQueries], e[kQueries];
#pragma unroll
    for (unsigned i = 0; i < kQueries; ++i) {
      m_page[i] = -infinity();
      for (unsigned w = 0; w < kWarps; ++w) {
        const float x = warp_maxima[w * kQueries + i];
        m_page[i] = x > m_page[i] ? x : m_page[i];
      }
      const bool allowed = t >= slots[i].begin && t < slots[i].end;
      e[i] = allowed ? exp(rn::sub(score[i], m_page[i])) : 0.0f;
    }
    store4(e_page + t * kQueries, {e[0], e[1], e[2], e[3]});
    store4(e_page + t * kQueries + 4, {e[4], e[5], e[6], e[7]});
    __syncthreads();  // the exponentials are there

    // 4. Their sums, and what merging needs: a thread a query.
    if (t >= kSumLanes && mine < tile.count) {
      float m_mine = -infinity();
      Slots allowed{0, 0};
#pragma unroll
      for (unsigned i = 0; i < kQueries; ++i) {  // no index into registers
        m_mine = i == mine ? m_page[i] : m_mine;
        allowed = i == mine ? slots[i] : allowed;
      }
      float l_page = 0;
      for (unsigned j = allowed.begin; j < allowed.end; ++j)
        l_page = rn::add(l_page, e_page[j * kQueries + mine]);
      if (split) {
        const Part part = part_of(a, row_of(mine), head_of(mine), page);
        part.stats[0] = m_mine;
        part.stats[1] = l_page;
      } else if (allowed.begin < allowed.end) {
        const float m_new = m > m_mine ? m : m_mine;
        const float factor = exp(rn::sub(m, m_new)), page_factor = exp(rn::sub(m_mine, m_new));
        l = rn::fma(l, factor, rn::mul(l_page, page_factor));
        m = m_new;
        range = range || m == infinity() || m == -infinity();
        keep[mine] = factor;
        take[mine] = page_factor;
      }
    }

    // 5. The weighted values: chains over the keys, a thread an element.
    for (std::size_t d = t; d < dim; d += kBlock) {
      const float* v = pages[page].v + kv_head * kBlock * dim + d;  // (256, dim)
      float o_page[kQueries] = {};
      for (unsigned j = any.begin; j < any.end; ++j) {
        const float value = v[j * dim];
        const float4 e0 = load4(e_page + j * kQueries), e1 = load4(e_page + j * kQueries + 4);
        const float weight[kQueries] = {e0.x, e0.y, e0.z, e0.w, e1.x, e1.y, e1.z, e1.w};
        const bool everyone = j >= all.begin && j < all.end;
#pragma unroll
        for (unsigned i = 0; i < kQueries; ++i) {
          // A step with weight 0 is not the same as none: the value may be anything, and -0 + 0 is +0.
          if (everyone || (j >= slots[i].begin && j < slots[i].end))
            o_page[i] = rn::fma(weight[i], value, o_page[i]);
        }
      }
      if (split) {
        for (unsigned i = 0; i < tile.count; ++i) {
          float x = 0;
#pragma unroll
          for (unsigned n = 0; n < kQueries; ++n) x = n == i ? o_page[n] : x;
          part_of(a, row_of(i), head_of(i), page).o[d] = x;
        }
      } else {
#pragma unroll
        for (unsigned i = 0; i < kQueries; ++i)
          score[i] = o_page[i];  // kept until the factors are there
      }
    }
    if (split) return;

    // 6. Merged into what was.
    __syncthreads();  // the factors are there
    if (t < dim) {
#pragma unroll
      for (unsigned i = 0; i < kQueries; ++i) {
        if (slots[i].begin < slots[i].end)
          o[i] = rn::fma(o[i], keep[i], rn::mul(score[i], take[i]));
      }
    }
  }

  if (t >= kSumLanes && mine < tile.count) {
    sum[mine] = l;
    if (range) a.range[row_of(mine)] = true;  // every head that writes it writes the same
  }
  __syncthreads();  // the sums of all pages are there
  if (t < dim) {
#pragma unroll
    for (unsigned i = 0; i < kQueries; ++i) {
      if (i < tile.count) a.rows[row_of(i)].out[head_of(i) * dim + t] = rn::div(o[i], sum[i]);
    }
  }
}

/// The pages' parts in rising order.
struct Merge {
  AttentionArgs a;

  /// i = (row * heads + head) * head_dim + element.
  __device__ void operator()(std::size_t i) const {
    const std::size_t dim = a.shape.head_dim, d = i % dim;
    const std::size_t head = i / dim % a.shape.heads, row = i / dim / a.shape.heads;
    const AttentionRow& query = a.rows[row];
    float m = -infinity(), l = 0, o = 0;
    bool range = false;
    for (std::size_t page = 0; page <= query.position / kBlock; ++page) {
      const Slots slots = allowed_slots(query.position, a.shape.window, page);
      if (slots.begin >= slots.end) continue;
      const Part part = part_of(a, row, head, page);
      const float m_page = part.stats[0];
      const float m_new = m > m_page ? m : m_page;
      const float keep = exp(rn::sub(m, m_new)), take = exp(rn::sub(m_page, m_new));
      l = rn::fma(l, keep, rn::mul(part.stats[1], take));
      o = rn::fma(o, keep, rn::mul(part.o[d], take));
      m = m_new;
      range = range || m == infinity() || m == -infinity();
    }
    query.out[head * dim + d] = rn::div(o, l);
    if (range && d == 0) a.range[row] = true;  // every head that writes it writes the same
  }
};

struct Store {
  AttentionShape shape;
  const AttentionRow* rows;
  const float *k, *v;
  std::size_t stride;

  /// i = (row * kv_heads + head) * head_dim + element.
  __device__ void operator()(std::size_t i) const {
    const std::size_t dim = shape.head_dim, d = i % dim;
    const std::size_t head = i / dim % shape.kv_heads, row = i / dim / shape.kv_heads;
    const std::size_t slot = rows[row].position % kBlock;
    const KvPage& page = rows[row].pages[rows[row].position / kBlock];
    const std::size_t from = row * stride + head * dim + d;
    page.k[(head * dim + d) * kBlock + slot] = k[from];
    page.v[(head * kBlock + slot) * dim + d] = v[from];
  }
};

}  // namespace

std::vector<AttentionTile> attention_tiles(const AttentionShape& shape,
                                           std::span<const AttentionRow> rows) {
  std::vector<AttentionTile> tiles;
  const std::size_t group = shape.heads / shape.kv_heads;
  for (std::size_t begin = 0; begin < rows.size();) {
    // Positions rise within a tile: it ends where they do not.
    std::size_t end = begin + 1;
    while (end < rows.size() && rows[end].pages == rows[begin].pages &&
           rows[end].position >= rows[end - 1].position) {
      ++end;
    }
    const std::size_t queries = (end - begin) * group;
    for (std::size_t at = 0; at < queries; at += kQueries) {
      const std::size_t count = queries - at < kQueries ? queries - at : kQueries;
      tiles.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at),
                       static_cast<std::uint32_t>(count)});
    }
    begin = end;
  }
  return tiles;
}

void attention(const AttentionArgs& args, cudaStream_t stream) {
  if (args.tile_count == 0) return;
  const auto tiles = static_cast<unsigned>(args.tile_count);
  const auto kv_heads = static_cast<unsigned>(args.shape.kv_heads);
  if (args.scratch == nullptr) {
    launch(attention_kernel<false>, dim3(tiles, kv_heads), kBlock, stream, args);
    return;
  }
  launch(attention_kernel<true>, dim3(tiles, kv_heads, static_cast<unsigned>(args.pages_max)),
         kBlock, stream, args);
  for_each(args.row_count * args.shape.heads * args.shape.head_dim, Merge{args}, stream);
}

void kv_store(const AttentionShape& shape, const AttentionRow* rows, std::size_t row_count,
              const float* k, const float* v, std::size_t stride, cudaStream_t stream) {
  for_each(row_count * shape.kv_heads * shape.head_dim, Store{shape, rows, k, v, stride}, stream);
}

}  // namespace verbatim::kernels::cuda
