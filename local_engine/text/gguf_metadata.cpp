#include "local_engine/text/gguf_metadata.hpp"

#include "schema/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

namespace verbatim::local_engine {

namespace {

constexpr std::uint64_t kKeyBytesMax = 65535;
constexpr int kArrayDepthMax = 4;
constexpr std::size_t kKvBytesMin = 8 + 1 + 4 + 1;  // key length, key, type, value

/// Bytes of one element of this type in the file at least; 0 for an unknown type.
std::size_t bytes_min(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
    case GgufType::string:
      return 8;
    case GgufType::array:
      return 12;
  }
  return 0;
}

bool is_signed(GgufType type) {
  return type == GgufType::i8 || type == GgufType::i16 || type == GgufType::i32 ||
         type == GgufType::i64;
}

bool is_float(GgufType type) { return type == GgufType::f32 || type == GgufType::f64; }

std::uint64_t read_unsigned(GgufReader& in, GgufType type) {
  const std::uint64_t value = in.number(bytes_min(type));
  if (type == GgufType::boolean && value > 1) in.fail();
  return value;
}

std::int64_t read_signed(GgufReader& in, GgufType type) {
  const unsigned shift = 64 - 8 * static_cast<unsigned>(bytes_min(type));
  return static_cast<std::int64_t>(in.number(bytes_min(type)) << shift) >> shift;
}

double read_float(GgufReader& in, GgufType type) {
  if (type == GgufType::f64) return std::bit_cast<double>(in.number(8));
  return std::bit_cast<float>(static_cast<std::uint32_t>(in.number(4)));
}

template <class T, class Read>
std::vector<T> read_items(GgufReader& in, std::uint64_t count, const Read& read) {
  std::vector<T> items;
  items.reserve(count);
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) items.push_back(read());
  return items;
}

GgufArray read_array(GgufReader& in, int depth) {
  GgufArray array;
  const std::uint64_t element = in.number(4);
  const std::uint64_t count = in.number(8);
  array.element = static_cast<GgufType>(element);
  const std::size_t each = element <= 12 ? bytes_min(array.element) : 0;
  if (!in.ok() || each == 0 || count > in.left() / each || depth > kArrayDepthMax) {
    in.fail();
    return array;
  }
  const GgufType type = array.element;
  if (type == GgufType::array) {
    array.items = read_items<GgufArray>(in, count, [&] { return read_array(in, depth + 1); });
  } else if (type == GgufType::string) {
    array.items =
        read_items<std::string>(in, count, [&] { return std::string(in.string(in.left())); });
  } else if (is_float(type)) {
    array.items = read_items<double>(in, count, [&] { return read_float(in, type); });
  } else if (is_signed(type)) {
    array.items = read_items<std::int64_t>(in, count, [&] { return read_signed(in, type); });
  } else {
    array.items = read_items<std::uint64_t>(in, count, [&] { return read_unsigned(in, type); });
  }
  return array;
}

GgufValue read_value(GgufReader& in) {
  GgufValue value;
  const std::uint64_t type = in.number(4);
  if (type > 12) in.fail();
  if (!in.ok()) return value;
  value.type = static_cast<GgufType>(type);
  if (value.type == GgufType::array) {
    value.value = read_array(in, 1);
  } else if (value.type == GgufType::string) {
    value.value = GgufScalar(std::string(in.string(in.left())));
  } else if (is_float(value.type)) {
    value.value = GgufScalar(read_float(in, value.type));
  } else if (is_signed(value.type)) {
    value.value = GgufScalar(read_signed(in, value.type));
  } else {
    value.value = GgufScalar(read_unsigned(in, value.type));
  }
  return value;
}

/// The spec asks for ASCII; printable ASCII also keeps keys harmless in messages.
bool is_key(std::string_view key) {
  if (key.empty()) return false;
  for (const char c : key) {
    if (c < 0x21 || c > 0x7e) return false;
  }
  return true;
}

void hash_number(Sha256& hash, std::uint64_t value) {
  std::uint8_t bytes[8];
  for (unsigned i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(value >> (8 * i));
  hash.update(Bytes(bytes, 8));
}

void hash_item(Sha256& hash, std::uint64_t value) { hash_number(hash, value); }
void hash_item(Sha256& hash, std::int64_t value) {
  hash_number(hash, static_cast<std::uint64_t>(value));
}
void hash_item(Sha256& hash, double value) {
  hash_number(hash, std::bit_cast<std::uint64_t>(value));
}
void hash_item(Sha256& hash, const std::string& value) {
  hash_number(hash, value.size());
  hash.update(value);
}
void hash_item(Sha256& hash, const GgufArray& array) {
  hash_number(hash, static_cast<std::uint64_t>(array.element));
  hash_number(hash, array.size());
  std::visit(
      [&](const auto& items) {
        for (const auto& item : items) hash_item(hash, item);
      },
      array.items);
}

}  // namespace

std::size_t GgufArray::size() const {
  return std::visit([](const auto& all) { return all.size(); }, items);
}

std::uint64_t GgufReader::number(std::size_t size) {
  if (!ok_ || bytes_.size() - at_ < size) {
    ok_ = false;
    return 0;
  }
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value |= std::uint64_t{bytes_[at_ + i]} << (8 * i);
  at_ += size;
  return value;
}

std::string_view GgufReader::string(std::uint64_t bytes_max) {
  const std::uint64_t size = number(8);
  if (!ok_ || size > bytes_max || size > bytes_.size() - at_) {
    ok_ = false;
    return {};
  }
  const std::string_view text = as_text(bytes_.subspan(at_, size));
  at_ += size;
  return text;
}

Result<GgufMetadata> GgufMetadata::parse(Bytes file, std::string_view where) {
  GgufMetadata out;
  out.where_ = where;
  const auto bad = [&](Errc code, std::string what) {
    return Error{code, std::move(what), out.where_, ""};
  };
  GgufReader in(file);
  if (in.number(4) != 0x46554747) return bad(Errc::invalid_input, "not a GGUF file");
  const std::uint64_t version = in.number(4);
  if ((version & 0xffff) == 0 && version != 0) {
    return bad(Errc::unsupported, "big-endian GGUF is not supported");
  }
  if (version == 1) return bad(Errc::unsupported, "GGUF version 1 is not supported");
  if (version > 3) {
    return bad(Errc::newer_version, "GGUF version " + std::to_string(version) + " is not known");
  }
  if (version < 1) return bad(Errc::invalid_input, "GGUF version 0 does not exist");
  out.version_ = static_cast<std::uint32_t>(version);
  out.tensor_count_ = in.number(8);
  const std::uint64_t count = in.number(8);
  if (!in.ok() || count > in.left() / kKvBytesMin) {
    return bad(Errc::invalid_input,
               "GGUF metadata count " + std::to_string(count) + " is more than the file can hold");
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string key(in.string(kKeyBytesMax));
    if (!in.ok() || !is_key(key)) {
      return bad(Errc::invalid_input, "GGUF metadata key " + std::to_string(i) + " is malformed");
    }
    GgufValue value = read_value(in);
    if (!in.ok()) {
      return bad(Errc::invalid_input, "GGUF metadata value of '" + key + "' is malformed");
    }
    if (!out.values_.emplace(key, std::move(value)).second) {
      return bad(Errc::invalid_input, "GGUF metadata key '" + key + "' occurs twice");
    }
  }
  out.end_ = in.offset();
  return out;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

Error GgufMetadata::wrong(std::string_view key, std::string_view expected) const {
  return {Errc::invalid_input,
          "GGUF metadata key '" + std::string(key) + "' is " +
              (has(key) ? "not " + std::string(expected) : "missing"),
          where_, ""};
}

Result<std::uint64_t> GgufMetadata::integer(std::string_view key,
                                            std::optional<std::uint64_t> fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr && fallback) return *fallback;
  const auto* scalar = value != nullptr ? std::get_if<GgufScalar>(&value->value) : nullptr;
  if (scalar != nullptr && value->type != GgufType::boolean) {
    if (const auto* number = std::get_if<std::uint64_t>(scalar)) return *number;
    const auto* number = std::get_if<std::int64_t>(scalar);
    if (number != nullptr && *number >= 0) return static_cast<std::uint64_t>(*number);
  }
  return wrong(key, "a non-negative integer");
}

Result<double> GgufMetadata::number(std::string_view key, std::optional<double> fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr && fallback) return *fallback;
  const auto* scalar = value != nullptr ? std::get_if<GgufScalar>(&value->value) : nullptr;
  if (scalar != nullptr && value->type != GgufType::boolean) {
    constexpr std::int64_t kExact = std::int64_t{1} << 53;
    if (const auto* real = std::get_if<double>(scalar)) return *real;
    if (const auto* n = std::get_if<std::uint64_t>(scalar);
        n != nullptr && *n <= static_cast<std::uint64_t>(kExact)) {
      return static_cast<double>(*n);
    }
    if (const auto* n = std::get_if<std::int64_t>(scalar);
        n != nullptr && *n <= kExact && *n >= -kExact) {
      return static_cast<double>(*n);
    }
  }
  return wrong(key, "a number");
}

Result<bool> GgufMetadata::boolean(std::string_view key, std::optional<bool> fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr && fallback) return *fallback;
  if (value != nullptr && value->type == GgufType::boolean) {
    return std::get<std::uint64_t>(std::get<GgufScalar>(value->value)) != 0;
  }
  return wrong(key, "a boolean");
}

Result<std::string> GgufMetadata::text(std::string_view key,
                                       std::optional<std::string> fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr && fallback) return *fallback;
  if (value != nullptr && value->type == GgufType::string) {
    return std::get<std::string>(std::get<GgufScalar>(value->value));
  }
  return wrong(key, "a string");
}

Result<const GgufArray*> GgufMetadata::array(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return static_cast<const GgufArray*>(nullptr);
  if (value->type != GgufType::array) return wrong(key, "an array");
  return &std::get<GgufArray>(value->value);
}

Digest GgufMetadata::digest(std::string_view prefix) const {
  Sha256 hash;
  for (auto at = values_.lower_bound(prefix); at != values_.end() && at->first.starts_with(prefix);
       ++at) {
    hash_item(hash, at->first);
    hash_number(hash, static_cast<std::uint64_t>(at->second.type));
    if (const auto* array = std::get_if<GgufArray>(&at->second.value)) {
      hash_item(hash, *array);
    } else {
      std::visit([&](const auto& item) { hash_item(hash, item); },
                 std::get<GgufScalar>(at->second.value));
    }
  }
  return hash.finish();
}

Result<GgufMetadata> read_gguf_metadata(const std::filesystem::path& path) {
  const auto failed = [&](std::string what) {
    return Error{errno == ENOENT ? Errc::not_found : Errc::storage_failed, std::move(what),
                 path.string(), ""};
  };
  // O_NONBLOCK: opening a FIFO that nobody writes must not hang; it is refused below.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return failed("cannot open the file: " + errno_text());
  struct stat status {};
  const bool known = ::fstat(file, &status) == 0;
  if (!known || !S_ISREG(status.st_mode) || status.st_size < 24) {
    const std::string what = known ? "not a GGUF file" : errno_text();
    ::close(file);
    return Error{known ? Errc::invalid_input : Errc::storage_failed, what, path.string(), ""};
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  const int map_errno = errno;
  ::close(file);
  errno = map_errno;
  if (mapped == MAP_FAILED) return failed("cannot map the file: " + errno_text());
  auto parsed =
      GgufMetadata::parse(Bytes(static_cast<const std::uint8_t*>(mapped), size), path.string());
  ::munmap(mapped, size);
  return parsed;
}

}  // namespace verbatim::local_engine
