#include "gateway/capture.hpp"

#include "gateway/content_coding.hpp"
#include "gateway/header_rules.hpp"

#include <algorithm>
#include <array>

namespace verbatim::gateway {

namespace {

struct Decision {
  CaptureLevel level = CaptureLevel::full;
  std::string rule;
};

Decision decide(const std::vector<CaptureRule>& levels, const RouteForms& forms) {
  std::optional<Decision> highest;
  for (const RouteForms::Form& form : forms.all()) {
    Decision one;
    const auto rule = std::find_if(levels.begin(), levels.end(), [&](const CaptureRule& each) {
      return each.where.fits(form, forms.upstream());
    });
    if (rule != levels.end()) one = {rule->level, rule->name};
    if (!highest || one.level > highest->level) highest = std::move(one);
  }
  return highest.value_or(Decision());
}

Decision lowest(const std::vector<CaptureRule>& levels) {
  Decision out;
  for (const CaptureRule& rule : levels) {
    if (rule.level < out.level) out = {rule.level, rule.name};
  }
  return out;
}

}  // namespace

std::string_view capture_level_name(CaptureLevel level) {
  switch (level) {
    case CaptureLevel::metadata:
      return "metadata";
    case CaptureLevel::hashes:
      return "hashes";
    case CaptureLevel::full:
      return "full";
  }
  return "";
}

Capture::Capture(const std::vector<CaptureRule>& levels, const RedactionRules& rules,
                 const RequestHead& head, std::string_view upstream) {
  if (levels.empty() && rules.empty()) return;
  const bool is_path = head.target.starts_with('/');
  const RouteForms forms(head, upstream);
  Decision decision = is_path ? decide(levels, forms) : lowest(levels);
  level_ = decision.level;
  level_rule_ = std::move(decision.rule);
  for (const auto& rule : rules) {
    if (!is_path || rule->where.fits_any(forms)) rules_.push_back(rule);
  }
}

bool Capture::has_pointers() const {
  return std::any_of(rules_.begin(), rules_.end(),
                     [](const auto& rule) { return !rule->pointers.empty(); });
}

void Capture::count(const std::string& field, const RedactionCounts& counts) {
  for (const auto& [rule, times] : counts) redacted_[field][rule] += times;
  if (!counts.empty() && field != "request.headers") changed_ = true;
}

std::string Capture::target(std::string_view raw_target) {
  const std::string hidden = redacted_target(raw_target);
  const std::string_view target = hidden;
  std::string_view path = target.substr(0, target.find('?'));
  const TextSearch search(rules_, taken_);
  RedactionCounts counts;
  const auto clean = [&](std::string_view text) {
    std::string plain = percent_decoded(text);
    std::replace(plain.begin(), plain.end(), '+', ' ');
    const auto hits = search.find(plain);
    for (const auto& hit : hits) ++counts[*hit.rule];
    return hits.empty() ? std::string(text) : std::string(kTakenOut);
  };
  std::string out;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    out += redacts() ? clean(path.substr(0, end)) : std::string(path.substr(0, end));
    if (end < path.size()) out.push_back('/');
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  if (target.size() > target.find('?')) {
    if (level_ != CaptureLevel::full) {
      leave_out("route.target.query", "level");
    } else {
      std::string_view query = target.substr(target.find('?'));
      while (!query.empty()) {  // each name and each value by itself
        out.push_back(query.front());
        query.remove_prefix(1);
        const std::size_t end = std::min(query.find_first_of("&;="), query.size());
        out += clean(query.substr(0, end));
        query.remove_prefix(end);
      }
    }
  }
  count("route.target", counts);
  return out;
}

Fields Capture::fields(const Fields& fields, const std::string& field, std::string_view own) {
  const TextSearch search(rules_, taken_);
  RedactionCounts counts;
  Fields out = fields;
  for (Field& each : out.all()) {
    if (same_word(each.name, own)) continue;
    const auto rule = std::find_if(rules_.begin(), rules_.end(), [&](const auto& one) {
      return std::any_of(one->headers.begin(), one->headers.end(),
                         [&](const std::string& name) { return same_word(name, each.name); });
    });
    if (rule == rules_.end()) {
      // A URL hides what is in it from the search until it is read as its server does.
      const std::string plain = percent_decoded(each.value);
      const auto hits = plain == each.value ? std::vector<TextSearch::Hit>() : search.find(plain);
      for (const auto& hit : hits) ++counts[*hit.rule];
      each.value = hits.empty() ? search.redact(each.value, counts) : std::string(kTakenOut);
    } else {
      each.value = kTakenOut;
      ++counts[(*rule)->name];
    }
  }
  count(field, counts);
  return out;
}

std::string Capture::message(std::string_view text) {
  if (level_ != CaptureLevel::full) {
    leave_out("error.message", "level");
    return "";
  }
  RedactionCounts counts;
  std::string out = TextSearch(rules_, taken_).redact(text, counts);
  count("error.message", counts);
  return out;
}

Capture::Body Capture::body(std::string_view bytes, const BodyKind& kind,
                            const std::string& field) {
  Body out;
  const bool coded = !kind.coding.empty() && !same_word(kind.coding, "identity");
  Result<std::string> decoded =
      coded ? decode_content(kind.coding, bytes, kind.decoded_bytes_max, Beside::refused)
            : Result<std::string>(std::string());
  const std::string_view text = coded && decoded ? std::string_view(*decoded) : bytes;
  const bool searches = std::any_of(rules_.begin(), rules_.end(), [&](const auto& rule) {
    return rule->patterns.any() || !(kind.answer ? rule->answer_pointers : rule->pointers).empty();
  });
  if (searches || !taken_.empty() || changed_) {
    if (!decoded || text.size() > kind.decoded_bytes_max || (kind.answer && taken_more_)) {
      out.redaction.opaque = !bytes.empty();
    } else {
      const bool derived_anyway = kind.answer && changed_;
      out.redaction = redact_body({kind.content_type, text, kind.api, kind.answer, derived_anyway},
                                  rules_, taken_);
    }
  }
  if (out.redaction.opaque) {
    // What its pointers would have taken out nobody knows, and the answer may repeat it.
    taken_more_ = taken_more_ || (!kind.answer && has_pointers());
    out.kept = false;
    leave_out(field, "unreadable");
    return out;
  }
  count(field, out.redaction.counts);
  if (!kind.answer) {
    taken_ = out.redaction.taken;
    taken_more_ = out.redaction.taken_more;
  }
  out.text = out.redaction.apply(text);
  out.bytes = coded && out.redaction.edits.empty() ? std::string(bytes) : out.text;
  return out;
}

void Capture::keep(audit::LeafDraft& draft, const std::string& field, std::string bytes,
                   const std::string& digest) {
  if (level_ == CaptureLevel::full) {
    draft.contents.push_back({field, std::move(bytes)});
    return;
  }
  leave_out(field, "level");
  if (digest.empty()) return;
  BodySample sample(0);
  sample.add(bytes);
  draft.fields[digest == "request.digest" ? "request_body" : "response_body"] = sample.describe();
  if (level_ == CaptureLevel::hashes) {
    draft.contents.push_back({digest, sample.digest_content()});
  }
}

void Capture::keep_sample(audit::LeafDraft& draft, BodySample& sample, const std::string& part) {
  draft.fields[part + "_body"] =
      keep_passed(draft, sample, part + ".body", sample.describe(), part + ".digest");
}

Json Capture::keep_passed(audit::LeafDraft& draft, BodySample& sample, const std::string& field,
                          Json about, std::string digest) {
  if (digest.empty()) digest = field + ".digest";
  // What nobody read has not been searched: a rule that might take something out of it takes all.
  const bool answer = field.starts_with("response");
  const bool unsearched = std::any_of(rules_.begin(), rules_.end(), [&](const auto& rule) {
    return rule->patterns.any() || !rule->answer_pointers.empty() ||
           (!answer && !rule->pointers.empty());
  });
  const bool kept = level_ == CaptureLevel::full && !unsearched;
  if (!kept) {
    about["recorded"] = 0;
    leave_out(field, unsearched ? "unreadable" : "level");
  }
  if (unsearched) {
    leave_out(digest, "unreadable");
  } else if (level_ != CaptureLevel::metadata) {
    draft.contents.push_back({digest, sample.digest_content()});
  }
  if (kept) draft.contents.push_back({field, sample.take_beginning()});
  return about;
}

void Capture::leave_out(const std::string& field, std::string_view reason) {
  left_out_.insert_or_assign(field, std::string(reason));
  if (reason != "level" && field != "request.headers") changed_ = true;
}

Json Capture::take_description() {
  Json out;
  if (level_ != CaptureLevel::full) {
    out["level"] = capture_level_name(level_);
    out["rule"] = level_rule_;
  }
  if (!redacted_.empty()) out["redacted"] = redacted_;
  if (!left_out_.empty()) out["left_out"] = left_out_;
  redacted_.clear();
  left_out_.clear();
  return out;
}

}  // namespace verbatim::gateway
