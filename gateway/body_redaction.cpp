#include "gateway/body_redaction.hpp"

#include "gateway/body_parts.hpp"
#include "gateway/gemini.hpp"
#include "gateway/json_scan.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>

namespace verbatim::gateway {

namespace {

constexpr std::size_t kTakenBytesMin = 6;
constexpr std::size_t kTakenMax = 64;
/// The channel of texts that no object or array is around. Families count from 1.
constexpr std::size_t kBareTexts = 0;
constexpr std::string_view kTakenOutJson = "\"REDACTED\"";
const std::string kUnreadable = "unreadable";
const std::string kDerived = "derived";

/// Members that tell a text once more, in another form.
constexpr std::array<std::string_view, 10> kDerivedMembers = {
    "logprobs",          "prompt_logprobs", "top_logprobs", "token_ids", "prompt_token_ids",
    "prompt_tokens_ids", "logprobsResult",  "avgLogprobs",  "embedding", "embeddings"};
/// Members of an array's item, and of an event, that say to which text its strings belong.
constexpr std::array<std::string_view, 6> kPlaceMembers = {
    "index", "type", "output_index", "content_index", "item_id", "thought"};

/// One of Google's answers: the parts of a candidate make one text, in a whole answer as in a stream; and a stream may be
/// a JSON array of what else would be its events.
bool is_gemini_answer(const BodyQuestion& question) {
  return question.answer && question.api == Api::gemini_generate_content;
}

bool begins_with_bracket(std::string_view body) {
  return body.substr(std::min(body.find_first_not_of(" \t\r\n"), body.size())).starts_with('[');
}

/// The items of a body that is a JSON array, each as a part.
std::vector<BodyPart> items_of(std::string_view body) {
  std::vector<BodyPart> parts;
  each_item(body, [&](std::string_view item) {
    const auto begin = static_cast<std::size_t>(item.data() - body.data());
    parts.push_back({begin, begin + item.size(), BodyPart::Kind::json});
  });
  return parts;
}

/// One redaction of one body. Walks over its JSON once, noting where strings are; then searches, and makes the edits.
class Redactor {
 public:
  Redactor(const BodyQuestion& question, const RedactionRules& rules,
           const std::vector<TakenText>& taken)
      : question_(question), body_(question.body), search_(rules, taken) {
    for (const auto& rule : rules) {
      for (const auto& pointer : question.answer ? rule->answer_pointers : rule->pointers) {
        pointers_.emplace_back(question.answer ? answer_pointer(pointer) : pointer, &rule->name);
      }
    }
  }

  BodyRedaction run() {
    BodyParts parts = take_apart(question_.content_type, body_, question_.answer);
    // How the client wrote the path may hide that it is Google's.
    const bool unknown = question_.answer && question_.api == Api::generic;
    const bool array = parts.form == BodyForm::json && begins_with_bracket(body_);
    const bool gemini = is_gemini_answer(question_) || (unknown && array);
    if (gemini && array) parts.parts = items_of(body_);
    if (unknown && array) extend_to_items();
    if (is_gemini(question_.api) || question_.api == Api::generic) take_either_name();
    if (parts.form == BodyForm::events && question_.answer) extend_to_events();
    const bool pointless = parts.form == BodyForm::text && !pointers_.empty();
    if (parts.form == BodyForm::opaque || pointless) {
      out_.opaque = !body_.empty();
      return std::move(out_);
    }
    // The strings of one JSON value are texts of their own; those of many are pieces of the same ones.
    in_pieces_ = parts.form != BodyForm::json || gemini;
    for (const BodyPart& part : parts.parts) read(part, parts.form);
    search_channels();
    take_out_derived();
    make_edits();
    return std::move(out_);
  }

 private:
  enum class Form { json_string, json_number, raw };
  struct Piece {
    std::size_t begin, end;  // in the body, with the quotes of a string
    std::size_t at;          // of its text in that of its channel
    Form form;
    bool derived;  // inside a member that goes whole if anything goes
  };
  struct Channel {
    std::string text;
    std::vector<std::size_t> pieces;
  };
  struct Frame {  // an object or array that is being read
    std::optional<std::size_t> node;
  };
  /// An object or array with strings in it. Where it stands, and what its place members say, names their channels.
  struct Node {
    std::optional<std::size_t> parent;
    std::string name;  // of the member, or "" in an array
    std::string place;
    std::size_t channels = 0;  // the family of its channels, once it has been read
  };
  struct Cut {  // of a piece's text
    std::size_t begin, end;
    bool first;  // of its hit: the mark stands here
  };

  /// Pointers into a whole array reach its items, too, when these are read one by one.
  void extend_to_items() {
    const std::size_t count = pointers_.size();
    for (std::size_t i = 0; i < count; ++i) {
      const auto& steps = pointers_[i].first.steps();
      if (steps.empty()) continue;
      pointers_.emplace_back(JsonPointer({steps.begin() + 1, steps.end()}), pointers_[i].second);
    }
  }
  /// Google's servers take each member under two names.
  void take_either_name() {
    either_name_ = true;
    for (auto& [pointer, rule] : pointers_) {
      std::vector<std::string> steps = pointer.steps();
      for (std::string& step : steps) step = proto_name(step);
      pointer = JsonPointer(std::move(steps));
    }
  }

  void extend_to_events() {
    std::vector<std::pair<JsonPointer, const std::string*>> more;
    for (const auto& [pointer, rule] : pointers_) {
      for (auto& each : stream_pointers(question_.api, pointer)) {
        more.emplace_back(std::move(each), rule);
      }
    }
    pointers_ = std::move(more);
  }

  void read(const BodyPart& part, BodyForm form) {
    if (part.begin == part.end) return;  // an empty line of data
    const std::string_view text = body_.substr(part.begin, part.end - part.begin);
    const bool said = form == BodyForm::events && part.kind == BodyPart::Kind::text &&
                      !part.aside && text != "[DONE]";
    // Text where the pointers expect JSON says what they cannot reach.
    const bool beyond_pointers = said && !pointers_.empty();
    if (part.kind == BodyPart::Kind::unreadable || beyond_pointers) {
      replace(part.begin, part.end, kTakenOutJson, kUnreadable);
    } else if (part.kind == BodyPart::Kind::text) {
      pieces_.push_back({part.begin, part.end, 0, Form::raw, false});
      search_piece(pieces_.size() - 1, text);
      if (said) continue_channel(kBareTexts, pieces_.size() - 1, text);
    } else {
      at_ = part.begin;
      nodes_.clear();
      value();
      assign_channels();
    }
  }

  // ---- the walk; the text is known to be JSON

  void skip_blank() { at_ = body_.find_first_not_of(" \t\r\n", at_); }
  void skip_string() {
    for (++at_; body_[at_] != '"'; ++at_) {
      if (body_[at_] == '\\') ++at_;
    }
    ++at_;
  }

  void value() {
    skip_blank();
    const std::size_t from = at_;
    const std::string* rule = taking_ == nullptr ? pointer_rule() : nullptr;
    if (rule != nullptr) taking_ = rule;
    switch (body_[at_]) {
      case '{':
        container('}');
        break;
      case '[':
        container(']');
        break;
      case '"':
        skip_string();
        note_string(from);
        break;
      default:
        at_ = std::min(body_.find_first_of(",]} \t\r\n", at_), body_.size());
        note_other(from);
    }
    if (rule == nullptr) return;
    taking_ = nullptr;
    replace(from, at_, kTakenOutJson, *rule);
  }

  void container(char closing) {
    const bool object = closing == '}';
    frames_.emplace_back();
    in_object_.push_back(object);
    ++at_;
    for (std::size_t item = 0;; ++item) {
      skip_blank();
      if (body_[at_] == ',') {
        ++at_;
        skip_blank();
      }
      if (body_[at_] == closing) break;
      std::string name = object ? member_name() : std::to_string(item);
      const bool derives =
          object && !in_derived_ &&
          std::find(kDerivedMembers.begin(), kDerivedMembers.end(), name) != kDerivedMembers.end();
      if (either_name_) either_path_.push_back(proto_name(name));
      path_.push_back(std::move(name));
      skip_blank();
      const std::size_t from = at_;
      in_derived_ = in_derived_ || derives;
      value();
      if (derives) {
        in_derived_ = false;
        if (taking_ == nullptr && body_.substr(from, 4) != "null")
          derived_.push_back({from, at_, ""});
      }
      if (object) note_place(body_.substr(from, at_ - from));
      path_.pop_back();
      if (either_name_) either_path_.pop_back();
    }
    ++at_;
    in_object_.pop_back();
    frames_.pop_back();
  }

  /// The node of the container at a depth, made when it is first needed.
  std::size_t node_at(std::size_t depth) {
    if (frames_[depth].node) return *frames_[depth].node;
    Node node;
    if (depth > 0) {
      node.parent = node_at(depth - 1);
      if (in_object_[depth - 1]) node.name = path_[depth - 1];
    }
    nodes_.push_back(std::move(node));
    frames_[depth].node = nodes_.size() - 1;
    return nodes_.size() - 1;
  }

  /// Reads a key and its colon. A key may be a secret as well.
  std::string member_name() {
    const std::size_t from = at_;
    skip_string();
    const std::string_view key = body_.substr(from, at_ - from);
    const auto text = json_string(key);
    std::string name = text.value_or(std::string(key));
    if (taking_ == nullptr && !text) {
      replace(from, at_, kTakenOutJson, kUnreadable);
    } else if (taking_ == nullptr) {
      pieces_.push_back({from, at_, 0, Form::json_string, in_derived_});
      search_piece(pieces_.size() - 1, name);
      if (cuts_.find(pieces_.size() - 1) == cuts_.end()) pieces_.pop_back();
    }
    skip_blank();
    ++at_;  // the colon
    return name;
  }

  const std::string* pointer_rule() const {
    for (const auto& [pointer, rule] : pointers_) {
      if (pointer.matches(either_name_ ? either_path_ : path_)) return rule;
    }
    return nullptr;
  }

  void note_string(std::size_t from) {
    const std::string_view whole = body_.substr(from, at_ - from);
    auto text = json_string(whole);
    if (taking_ != nullptr) {
      if (text && text->size() >= kTakenBytesMin) note_taken(std::move(*text));
      return;
    }
    if (!text) return replace(from, at_, kTakenOutJson, kUnreadable);
    note_piece(from, Form::json_string, std::move(*text));
  }

  void note_taken(std::string text) {
    if (!taken_texts_.insert(text).second) return;
    out_.taken_more = out_.taken.size() == kTakenMax;
    if (!out_.taken_more) out_.taken.push_back({std::move(text), *taking_});
  }

  void note_other(std::size_t from) {
    if (taking_ != nullptr) return;
    const std::string_view text = body_.substr(from, at_ - from);
    // Whatever follows, ".0" and "e0" too: it may be the same number.
    const std::string_view whole = text.substr(0, text.find_first_not_of("-0123456789"));
    if (whole.size() < 13) return;  // no secret looks so
    pieces_.push_back({from, at_, 0, Form::json_number, in_derived_});
    search_piece(pieces_.size() - 1, whole);
    if (cuts_.find(pieces_.size() - 1) == cuts_.end()) pieces_.pop_back();
  }

  void note_piece(std::size_t from, Form form, std::string text) {
    pieces_.push_back({from, at_, 0, form, in_derived_});
    search_piece(pieces_.size() - 1, text);
    if (!in_pieces_) return;
    if (frames_.empty()) return continue_channel(kBareTexts, pieces_.size() - 1, text);
    // Its channel is known once the objects around it have been read to their ends.
    waiting_.push_back({pieces_.size() - 1, node_at(frames_.size() - 1),
                        in_object_.back() ? path_.back() : "", std::move(text)});
  }

  /// A member that says to which text the strings of its object belong.
  void note_place(std::string_view text) {
    const std::string& name = path_.back();
    const bool tells =
        std::find(kPlaceMembers.begin(), kPlaceMembers.end(), name) != kPlaceMembers.end();
    if (!tells || text.size() > 128 || text.front() == '{' || text.front() == '[') return;
    // The type of an event names its kind; deeper down it would only part what belongs together.
    if (name == "type" && frames_.size() > 1) return;
    // Google leaves out what is 0 or false, or says it.
    if (is_gemini_answer(question_) && (text == "0" || text == "false")) return;
    nodes_[node_at(frames_.size() - 1)].place.append(name).append("=").append(text).append(";");
  }

  void assign_channels() {
    for (Node& node : nodes_) {  // parents come before their children
      const std::size_t above = node.parent ? nodes_[*node.parent].channels : 0;
      node.channels = family({above, node.name, node.place});
    }
    for (Waiting& waiting : waiting_) {
      continue_channel(family({nodes_[waiting.node].channels, std::move(waiting.name), "="}),
                       waiting.piece, waiting.text);
    }
    waiting_.clear();
  }

  void continue_channel(std::size_t number, std::size_t piece, std::string_view text) {
    Channel& channel = channels_[number];
    pieces_[piece].at = channel.text.size();
    channel.text += text;
    channel.pieces.push_back(piece);
  }

  using FamilyName = std::tuple<std::size_t, std::string, std::string>;
  std::size_t family(FamilyName name) {
    const std::size_t next = families_.size() + 1;
    return families_.try_emplace(std::move(name), next).first->second;
  }

  // ---- the search

  void search_piece(std::size_t piece, std::string_view text) {
    for (const TextSearch::Hit& hit : search_.find(text)) {
      cuts_[piece].push_back({hit.begin, hit.end, true});
      ++out_.counts[*hit.rule];
    }
  }

  /// What no piece shows by itself.
  void search_channels() {
    for (const auto& [name, channel] : channels_) {
      if (channel.pieces.size() < 2) continue;
      for (const TextSearch::Hit& hit : search_.find(channel.text)) cut_across(channel, hit);
    }
  }

  void cut_across(const Channel& channel, const TextSearch::Hit& hit) {
    const auto begin_of = [&](std::size_t i) { return pieces_[channel.pieces[i]].at; };
    const auto end_of = [&](std::size_t i) {
      return i + 1 < channel.pieces.size() ? begin_of(i + 1) : channel.text.size();
    };
    const auto first =
        std::upper_bound(channel.pieces.begin(), channel.pieces.end(), hit.begin,
                         [&](std::size_t at, std::size_t piece) { return at < pieces_[piece].at; });
    auto i = static_cast<std::size_t>(first - channel.pieces.begin()) - 1;
    if (hit.end <= end_of(i)) return;  // within one piece, where it was found already
    ++out_.counts[*hit.rule];
    for (bool mark = true; i < channel.pieces.size() && begin_of(i) < hit.end; ++i) {
      const std::size_t begin = std::max(hit.begin, begin_of(i)) - begin_of(i);
      const std::size_t end = std::min(hit.end, end_of(i)) - begin_of(i);
      if (begin < end) {
        cuts_[channel.pieces[i]].push_back({begin, end, mark});
        mark = false;
      }
    }
  }

  // ---- the edits

  void replace(std::size_t begin, std::size_t end, std::string_view text, const std::string& rule) {
    replaced_.push_back({begin, end, std::string(text)});
    ++out_.counts[rule];
  }

  void take_out_derived() {
    if (out_.counts.empty() && !question_.derived_anyway) return;
    without_derived_ = true;
    for (const BodyEdit& each : derived_) replace(each.begin, each.end, kTakenOutJson, kDerived);
  }

  void make_edits() {
    for (auto& [piece, cuts] : cuts_) {
      if (pieces_[piece].derived && without_derived_) continue;
      replaced_.push_back({pieces_[piece].begin, pieces_[piece].end, without(piece, cuts)});
    }
    std::sort(replaced_.begin(), replaced_.end(), [](const BodyEdit& a, const BodyEdit& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    for (BodyEdit& edit : replaced_) {
      // What is inside of what goes whole goes with it.
      if (out_.edits.empty() || edit.begin >= out_.edits.back().end) {
        out_.edits.push_back(std::move(edit));
      }
    }
  }

  std::string without(std::size_t index, std::vector<Cut>& cuts) const {
    const Piece& piece = pieces_[index];
    const std::string_view whole = body_.substr(piece.begin, piece.end - piece.begin);
    const std::string text =
        piece.form == Form::json_string ? json_string(whole).value_or("") : std::string(whole);
    std::stable_sort(cuts.begin(), cuts.end(),
                     [](const Cut& a, const Cut& b) { return a.begin < b.begin; });
    std::string kept;
    std::size_t done = 0;
    for (const Cut& cut : cuts) {
      if (cut.end <= done) continue;
      if (cut.begin > done) kept.append(text, done, cut.begin - done);
      if (cut.first) kept.append(kTakenOut);
      done = cut.end;
    }
    kept.append(text, done);
    if (piece.form == Form::raw) return kept;
    std::string out;
    append_json_string(out, kept);
    return out;
  }

  const BodyQuestion& question_;
  std::string_view body_;
  TextSearch search_;
  std::vector<std::pair<JsonPointer, const std::string*>> pointers_;

  bool in_pieces_ = false;
  std::size_t at_ = 0;
  std::vector<std::string> path_;
  bool either_name_ = false;
  std::vector<std::string> either_path_;  // then: path_ by proto_name()
  std::vector<Frame> frames_;             // of the containers around
  std::vector<bool> in_object_;           // beside frames_: else it is an array
  bool in_derived_ = false;
  const std::string* taking_ = nullptr;  // the rule whose pointer takes what is being read
  struct Waiting {
    std::size_t piece, node;
    std::string name, text;
  };
  std::vector<Node> nodes_;
  std::vector<Waiting> waiting_;  // strings of the JSON value that is being read
  std::map<FamilyName, std::size_t> families_;
  std::set<std::string> taken_texts_;

  std::vector<Piece> pieces_;
  std::map<std::size_t, Channel> channels_;
  std::map<std::size_t, std::vector<Cut>> cuts_;  // by piece
  std::vector<BodyEdit> derived_, replaced_;
  bool without_derived_ = false;
  BodyRedaction out_;
};

}  // namespace

std::string BodyRedaction::apply(std::string_view body) const {
  std::string out;
  out.reserve(body.size());
  std::size_t done = 0;
  for (const BodyEdit& edit : edits) {
    out.append(body.substr(done, edit.begin - done)).append(edit.text);
    done = edit.end;
  }
  return out.append(body.substr(done));
}

std::size_t MovedPlaces::operator()(std::size_t place) {
  const std::vector<BodyEdit>& edits = *edits_;
  if (next_ > 0 && edits[next_ - 1].end > place) *this = MovedPlaces(edits);
  for (; next_ < edits.size() && edits[next_].end <= place && edits[next_].begin < place; ++next_) {
    removed_ += edits[next_].end - edits[next_].begin;
    put_ += edits[next_].text.size();
  }
  std::size_t to = place + put_ - removed_;
  if (next_ < edits.size() && edits[next_].begin < place) {
    to += edits[next_].text.size();
    to -= place - edits[next_].begin;
  }
  return to;
}

BodyRedaction redact_body(const BodyQuestion& question, const RedactionRules& rules,
                          const std::vector<TakenText>& taken) {
  return Redactor(question, rules, taken).run();
}

}  // namespace verbatim::gateway
