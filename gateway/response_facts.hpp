#pragma once
// What an answer says of itself: read from a side copy, after the bytes have gone on. Absent is
// absent, never 0.

#include "gateway/dialect.hpp"
#include "gateway/http.hpp"
#include "schema/canonical_json.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

class ResponseFacts {
 public:
  explicit ResponseFacts(Api api) : api_(api) {}

  /// Request ids, versions and rate limits that the upstream put into its headers.
  void read_head(const ResponseHead& head);
  /// A whole JSON body. One of Google's streams may be that too: an array of what would else be events.
  void read_json(std::string_view body);
  /// One server-sent event.
  void read_event(std::string_view text);
  /// A whole event stream, when it could not be followed as it came.
  void read_stream(std::string_view body);

  /// Members `upstream`, `usage` and `finish` of a response leaf, where known.
  void describe(Json& leaf) const;

  [[nodiscard]] bool error_event() const { return error_event_; }
  /// Every choice has given its reason to finish, or a terminal event said so; of Google's streams, which have none: every
  /// candidate that was begun, or the prompt was blocked.
  [[nodiscard]] bool finished() const {
    return terminal_ || blocked_ || (!finish_.empty() && open_.empty());
  }
  /// Such an array came without its closing bracket.
  [[nodiscard]] bool cut_array() const { return cut_array_; }
  [[nodiscard]] bool terminal() const {
    return terminal_;
  }  ///< the stream's terminal event was read
  [[nodiscard]] std::size_t events() const { return events_; }
  [[nodiscard]] std::size_t data_events() const { return data_events_; }

 private:
  void read_object(std::string_view object);
  void read_choices(std::string_view array);
  void read_gemini(std::string_view object);
  void read_candidates(std::string_view array);
  void read_gemini_usage(std::string_view object);
  void read_usage(std::string_view object, std::string_view prefix);
  void set_usage(const std::string& name, std::string_view value);
  void set(std::map<std::string, std::string>& where, std::string_view name,
           std::string_view value);

  Api api_;
  std::map<std::string, std::string> upstream_;  // what it said of itself
  std::map<std::string, std::int64_t>
      usage_;  // as last said: cumulative forms overwrite, never add
  std::map<std::int64_t, std::string> finish_;  // by choice
  std::set<std::int64_t> open_;                 // candidates that have not finished yet
  bool blocked_ = false;                        // the prompt was, so there will be no candidate
  bool cut_array_ = false;
  bool terminal_ = false;
  bool error_event_ = false;
  std::size_t events_ = 0;
  std::size_t data_events_ = 0;
};

}  // namespace verbatim::gateway
