#include "audit/content.hpp"

#include <zstd.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace verbatim::audit {

namespace {

// Level 1: the writer packs while clients wait.
constexpr int kZstdLevel = 1;
// Shorter ones gain a few hundred bytes, and cost more than all the rest of sealing them.
constexpr std::size_t kCompressedFrom = 1024;

std::string associated_data(std::uint64_t index, int codec, std::string_view field) {
  std::string data("verbatim/content/v1\0", 20);
  for (int shift = 56; shift >= 0; shift -= 8) data.push_back(static_cast<char>(index >> shift));
  data.push_back(static_cast<char>(codec));
  return data.append(field);
}

/// One a thread: making one costs more than to unpack a small content by it.
ZSTD_DCtx* unpacking_context() {
  thread_local const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                                  ZSTD_freeDCtx);
  VERBATIM_CHECK(context != nullptr);
  return context.get();
}

Error wrong(std::string what, std::uint64_t index, const std::string& field) {
  return Error{Errc::tampered, std::move(what), "leaf " + std::to_string(index) + ", " + field, ""};
}

}  // namespace

Digest commitment(const Salt& salt, Bytes bytes) {
  static constexpr std::string_view kDomain("verbatim/commit/v1\0", 19);
  return sha256({as_bytes(kDomain), Bytes(salt), bytes});
}

bool is_field_name(std::string_view field) {
  bool word = false;  // the last character belongs to a word
  for (const char c : field) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    if (!plain && !(c == '.' && word)) return false;
    word = plain;
  }
  return word && field.size() <= 64 && !field.ends_with(".salt");
}

Packer::Packer() : context_(ZSTD_createCCtx(), ZSTD_freeCCtx) {
  VERBATIM_CHECK(context_ != nullptr);
}

PackedContent Packer::pack(Content content) {
  PackedContent packed;
  packed.field = std::move(content.field);
  packed.bytes = content.bytes.size();
  fill_random(packed.salt);
  packed.commitment = commitment(packed.salt, as_bytes(content.bytes));
  if (content.bytes.size() >= kCompressedFrom) {
    std::string frame(ZSTD_compressBound(content.bytes.size()), '\0');
    const std::size_t size =
        ZSTD_compressCCtx(context_.get(), frame.data(), frame.size(), content.bytes.data(),
                          content.bytes.size(), kZstdLevel);
    if (ZSTD_isError(size) == 0 && size < content.bytes.size()) {
      frame.resize(size);
      packed.codec = 1;
      packed.payload = std::move(frame);
      return packed;
    }
  }
  packed.payload = std::move(content.bytes);
  return packed;
}

std::string seal_content(Aead& aead, const SymmetricKey& key, std::uint64_t index,
                         const PackedContent& content) {
  return aead.seal(key, {Bytes(content.salt), as_bytes(content.payload)},
                   as_bytes(associated_data(index, content.codec, content.field)));
}

Result<UnsealedContent> unseal_content(Aead& aead, const SymmetricKey& key, std::uint64_t index,
                                       const ContentReference& reference, int codec, Bytes sealed) {
  auto text = aead.open(key, sealed, as_bytes(associated_data(index, codec, reference.field)));
  if (!text) return wrong("the sealed content does not open with its key", index, reference.field);
  UnsealedContent content;
  if (text->size() < content.salt.size()) {
    return wrong("the sealed content is cut short", index, reference.field);
  }
  std::copy_n(text->begin(), content.salt.size(), content.salt.begin());
  text->erase(0, content.salt.size());
  if (codec == 1) {
    // The frame's own claim bounds nothing: the leaf's does.
    if (ZSTD_getFrameContentSize(text->data(), text->size()) != reference.bytes ||
        reference.bytes > kContentBytesMax) {
      return wrong("the compressed content has another size than its leaf says", index,
                   reference.field);
    }
    content.bytes.resize(reference.bytes);
    const std::size_t size = ZSTD_decompressDCtx(unpacking_context(), content.bytes.data(),
                                                 content.bytes.size(), text->data(), text->size());
    if (ZSTD_isError(size) != 0 || size != reference.bytes) {
      return wrong("the compressed content is damaged", index, reference.field);
    }
  } else {
    content.bytes = std::move(*text);
  }
  return content;
}

bool matches(const ContentReference& reference, const UnsealedContent& content) {
  return content.bytes.size() == reference.bytes &&
         commitment(content.salt, as_bytes(content.bytes)) == reference.commitment;
}

std::string dek_purpose(std::uint64_t index) { return "verbatim/dek/v1/" + std::to_string(index); }

}  // namespace verbatim::audit
