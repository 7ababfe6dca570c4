#include "schema/ordered_json.hpp"

#include "schema/json_problem.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace verbatim {

namespace {

/// Puts together what nlohmann's parser reads. What is open grows at its end only, so pointers to it stay good.
class OrderedBuilder : public nlohmann::json_sax<OrderedJson> {
 public:
  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return fail("binary data"); }
  bool start_object(std::size_t) override { return open(OrderedJson::object()); }
  bool key(string_t& value) override {
    if (!open_.back().keys.insert(value).second) {
      return fail(json_problem::twice(value));
    }
    open_.back().key = std::move(value);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(OrderedJson::array()); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& exception) override {
    return fail(json_problem::of(position, exception));
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] OrderedJson take() { return std::move(root_); }

 private:
  struct Open {
    OrderedJson* value;
    std::string key;             // of the member that comes next
    std::set<std::string> keys;  // a tree: hashes could be made to collide
  };

  bool fail(std::string what) {
    problem_ = std::move(what);
    return false;
  }
  OrderedJson& add(OrderedJson value) {
    if (open_.empty()) return root_ = std::move(value);
    Open& parent = open_.back();
    if (parent.value->is_array()) {
      auto& items = parent.value->get_ref<OrderedJson::array_t&>();
      return items.emplace_back(std::move(value));
    }
    auto& members = parent.value->get_ref<OrderedJson::object_t&>();
    return members.emplace_back(std::move(parent.key), std::move(value)).second;
  }
  bool put(OrderedJson value) {
    add(std::move(value));
    return true;
  }
  bool open(OrderedJson empty) {
    if (open_.size() >= static_cast<std::size_t>(kJsonDepthMax)) return fail("nested too deep");
    open_.push_back({&add(std::move(empty)), {}, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  OrderedJson root_;
  std::vector<Open> open_;
  std::string problem_;
};

}  // namespace

Result<OrderedJson> parse_ordered_json(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return json_problem::holds_nul();
  OrderedBuilder builder;
  if (!OrderedJson::sax_parse(text.begin(), text.end(), &builder)) {
    return json_problem::not_json(builder.problem());
  }
  return Result<OrderedJson>(boost::system::in_place_value, builder.take());
}

}  // namespace verbatim
