#pragma once
// Reading TOML into settings: each table is a list of keys with the place each one sets.

#include "schema/error.hpp"

// toml++ 3.3 asserts what it goes on to check ("[$]" is such a document), and with NDEBUG clang may take it for granted. It
// shall do neither: what is in a file is no bug of ours.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expr) static_assert(true)
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbatim::gateway {

/// Reads tables; keeps the first error, with the file's name and the line.
class TomlReader {
 public:
  explicit TomlReader(std::string_view name) : name_(name) {}

  using Setter = std::function<void(const toml::node&, const std::string& key)>;
  using Keys = std::map<std::string_view, Setter>;

  void table(const toml::table& from, const std::string& path, const Keys& keys) {
    for (const auto& [key, node] : from) {
      const std::string whole =
          path.empty() ? std::string(key.str()) : path + "." + std::string(key.str());
      const auto setter = keys.find(key.str());
      if (setter == keys.end()) {
        fail(node, "unknown key '" + whole + "'");
      } else {
        setter->second(node, whole);
      }
    }
  }

  Setter text(std::string& to) {
    return [this, &to](const toml::node& node, const std::string& key) {
      const auto value = node.value_exact<std::string>();
      if (!value) {
        fail(node, "'" + key + "' must be a string");
      } else if (value->find('\0') != std::string::npos) {
        fail(node, "'" + key + "' holds the character NUL, at which the system would cut it off");
      } else {
        to = *value;
      }
    };
  }
  /// A time as a string, or as TOML's own dates and times.
  Setter time(std::string& to) {
    return [this, &to](const toml::node& node, const std::string& key) {
      std::ostringstream written;
      if (const auto* date = node.as_date()) {
        written << date->get();
      } else if (const auto* date_time = node.as_date_time()) {
        written << date_time->get();
      } else {
        return text(to)(node, key);
      }
      to = written.str();
    };
  }
  Setter flag(bool& to) {
    return [this, &to](const toml::node& node, const std::string& key) {
      if (const auto value = node.value_exact<bool>()) {
        to = *value;
      } else {
        fail(node, "'" + key + "' must be true or false");
      }
    };
  }
  template <class T>
  Setter count(T& to, std::int64_t min, std::int64_t max) {
    return [this, &to, min, max](const toml::node& node, const std::string& key) {
      const auto value = node.value_exact<std::int64_t>();
      if (value && *value >= min && *value <= max) {
        to = static_cast<T>(*value);
      } else {
        fail(node, "'" + key + "' must be an integer from " + std::to_string(min) + " to " +
                       std::to_string(max));
      }
    };
  }
  Setter texts(std::vector<std::string>& to) {
    return [this, &to](const toml::node& node, const std::string& key) {
      const toml::array* list = node.as_array();
      if (list == nullptr) return fail(node, "'" + key + "' must be a list of strings");
      for (const toml::node& item : *list) {
        std::string each;
        text(each)(item, key);
        to.push_back(std::move(each));
      }
    };
  }
  Setter path(std::filesystem::path& to) {
    return [this, &to](const toml::node& node, const std::string& key) {
      std::string value;
      text(value)(node, key);
      to = value;
    };
  }
  Setter milliseconds(std::chrono::milliseconds& to, std::int64_t min = 1) {
    return [this, &to, min](const toml::node& node, const std::string& key) {
      std::int64_t value = to.count();
      count(value, min, 86'400'000)(node, key);
      to = std::chrono::milliseconds(value);
    };
  }
  Setter one_of(const std::map<std::string, std::function<void()>>& choices) {
    return [this, choices](const toml::node& node, const std::string& key) {
      const auto value = node.value_exact<std::string>();
      const auto choice = value ? choices.find(*value) : choices.end();
      if (choice != choices.end()) {
        choice->second();
        return;
      }
      std::string names;
      for (const auto& [name, apply] : choices) names += (names.empty() ? "" : ", ") + name;
      fail(node, "'" + key + "' must be one of " + names);
    };
  }
  Setter sub_table(const Keys& keys) {
    return [this, keys](const toml::node& node, const std::string& key) {
      if (const toml::table* sub = node.as_table()) {
        table(*sub, key, keys);
      } else {
        fail(node, "'" + key + "' must be a table");
      }
    };
  }
  /// `read` is given each table of an array of tables.
  Setter tables(const std::function<void(const toml::table&, const std::string&)>& read) {
    return [this, read](const toml::node& node, const std::string& key) {
      const toml::array* list = node.as_array();
      if (list == nullptr) return fail(node, "'" + key + "' must be written as [[" + key + "]]");
      for (const toml::node& item : *list) {
        if (const toml::table* each = item.as_table()) {
          read(*each, key);
        } else {
          fail(item, "'" + key + "' must be written as [[" + key + "]]");
        }
      }
    };
  }

  void fail(const toml::node& node, std::string what) {
    if (error_) return;
    error_ = Error{Errc::invalid_input, std::move(what),
                   name_ + " line " + std::to_string(node.source().begin.line), ""};
  }
  void take(const toml::node& node, const Error& error) { fail(node, error.what); }
  /// The member `key` of a table, where it is there: so that a message names its line and not the table's.
  [[nodiscard]] static const toml::node& member(const toml::table& table, std::string_view key) {
    const toml::node* node = table.get(key);
    return node != nullptr ? *node : static_cast<const toml::node&>(table);
  }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  std::string name_;
  std::optional<Error> error_;
};

}  // namespace verbatim::gateway
