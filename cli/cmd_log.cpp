// verbatim log list|show, checkpoint, receipt: reading the log.

#include "audit/erasure.hpp"
#include "audit/prune.hpp"
#include "audit/reader.hpp"
#include "audit/subject.hpp"
#include "cli/append_leaf.hpp"
#include "cli/opentelemetry.hpp"
#include "cli/show_text.hpp"
#include "gateway/gateway_keys.hpp"
#include "replay/answer_body.hpp"
#include "replay/recorded.hpp"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <memory>
#include <optional>
#include <set>

namespace verbatim::cli {

namespace {

struct ListFlags {
  std::string since, until, model, status, tenant, subject;
  std::uint64_t limit = 0;
  bool all_types = false;
};

Result<audit::RecordFilter> filter_of(const ListFlags& flags) {
  audit::RecordFilter filter;
  const auto timed = filter.set_times(flags.since, flags.until);
  if (!timed) return timed.error();
  filter.model = flags.model;
  filter.status = flags.status;
  filter.tenant = flags.tenant;
  filter.limit = flags.limit;
  filter.newest_first = flags.limit > 0;  // the newest are kept; printed oldest first all the same
  if (flags.all_types) filter.type.clear();
  return filter;
}

OrderedJson json_of(const audit::RecordSummary& record) {
  OrderedJson json = {
      {"id", record.id.str()},
      {"index", record.index},
      {"time", format_rfc3339(record.time_us)},
      {"type", record.type},
      {"status", record.status.empty() ? OrderedJson() : OrderedJson(record.status)},
      {"model", record.model},
      {"route", record.route},
      {"cache", record.cache.empty() ? OrderedJson() : OrderedJson(record.cache)},
      {"tenant", record.tenant}};
  if (record.response_index) json["response_index"] = *record.response_index;
  return json;
}

/// How a list of records is shown.
struct Columns {
  bool type = false, tenant = false;
};

void print_row(const audit::RecordSummary& record, const Columns& columns, bool erased) {
  std::cout << column(std::to_string(record.index), 6) << record.id.str() << "  "
            << format_rfc3339(record.time_us).substr(0, 19) << "Z  "
            << (columns.type ? column(record.type, 18) : "")
            << column(record.status.empty() ? (record.type == "request" ? "open" : "-")
                                            : record.status,
                      18)
            << column(record.cache.empty() ? "-" : record.cache, 6)
            << (columns.tenant ? column(record.tenant.empty() ? "-" : record.tenant, 12) : "")
            << column(record.model.empty() ? "-" : record.model, 16)
            << one_line(record.route.empty() ? "-" : record.route) << (erased ? "  ERASED" : "")
            << '\n';
}

/// Leaves of which contents were erased.
Result<std::set<std::uint64_t>> erased_leaves(audit::LogReader& reader) {
  audit::RecordFilter filter;
  filter.type = "erasure";
  const auto erasures = reader.list(filter);
  if (!erasures) return erasures.error();
  std::set<std::uint64_t> leaves;
  for (const auto& erasure : *erasures) {
    const auto leaf = reader.leaf(erasure.index);
    const auto erased = leaf ? audit::read_erased(leaf->json)
                             : Result<std::vector<audit::ErasedContents>>(leaf.error());
    if (!erased) continue;  // pruned: what it names is gone too; verify says what is malformed
    for (const audit::ErasedContents& contents : *erased) leaves.insert(contents.leaf);
  }
  return leaves;
}

bool is_erased(const std::set<std::uint64_t>& leaves, const audit::RecordSummary& record) {
  return leaves.contains(record.index) ||
         (record.response_index && leaves.contains(*record.response_index));
}

/// Those whose request leaf names this subject, at most `limit`, 0 for all.
void keep_of_subject(audit::LogReader& reader, const std::string& subject, std::uint64_t limit,
                     std::vector<audit::RecordSummary>& records) {
  std::vector<audit::RecordSummary> kept;
  for (audit::RecordSummary& record : records) {
    const auto leaf = reader.leaf(record.index);
    if (!leaf || replay::text_at(leaf->json, {"subject"}) != subject) continue;
    kept.push_back(std::move(record));
    if (limit != 0 && kept.size() == limit) break;
  }
  records = std::move(kept);
}

/// What a verdict's leaf says, and of which record.
struct Judged {
  std::string verdict, record;
};
std::optional<Judged> judged_by(audit::LogReader& reader, const audit::RecordSummary& leaf) {
  if (leaf.type != "replay_verdict") return std::nullopt;
  const auto stored = reader.leaf(leaf.index);
  if (!stored) return std::nullopt;  // pruned
  return Judged{replay::text_at(stored->json, {"verdict"}),
                replay::text_at(stored->json, {"record"})};
}

int run_list(const Context& context, const ListFlags& flags) {
  auto filter = filter_of(flags);
  if (!filter) return fail(filter.error());
  if (!flags.subject.empty()) filter->limit = 0;  // counted below
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return fail(reader.error());
  auto records = (*reader)->list(*filter);
  if (!records) return fail(records.error());
  if (!flags.subject.empty()) keep_of_subject(**reader, flags.subject, flags.limit, *records);
  const auto erased = erased_leaves(**reader);
  if (!erased) return fail(erased.error());
  if (filter->newest_first) std::reverse(records->begin(), records->end());
  if (context.json) {
    OrderedJson rows = OrderedJson::array();
    for (const auto& record : *records) {
      OrderedJson row = json_of(record);
      if (is_erased(*erased, record)) row["erased"] = true;
      if (const auto judged = judged_by(**reader, record)) {
        row["verdict"] = judged->verdict;
        row["record"] = judged->record;
      }
      rows.push_back(std::move(row));
    }
    print_json({{"records", std::move(rows)}});
    return kDone;
  }
  const auto of_another = [&](const auto& record) {
    return record.tenant != records->front().tenant;
  };
  const Columns columns{
      flags.all_types,
      !flags.all_types && std::any_of(records->begin(), records->end(), of_another)};
  std::cout << "index   id                                    time                  "
            << (flags.all_types ? "type                " : "") << "status              cache   "
            << (columns.tenant ? "tenant        " : "") << "model             route\n";
  for (auto& record : *records) {
    if (const auto judged = judged_by(**reader, record)) {
      record.status = judged->verdict;
      record.route = "of " + judged->record;
    }
    print_row(record, columns, is_erased(*erased, record));
  }
  return kDone;
}

/// The leaves that ID names: a record's, or the one with that index.
Result<std::vector<std::uint64_t>> indices_named(audit::LogReader& reader, const std::string& id) {
  if (id.find('-') != std::string::npos) {
    const auto uuid = parse_uuid(id);
    if (!uuid) return uuid.error();
    return audit::leaves_with_id(reader.data_dir(), *uuid);
  }
  std::uint64_t index = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), index);
  if (error != std::errc() || end != id.data() + id.size()) {
    return Error{Errc::invalid_input,
                 "'" + id.substr(0, 64) + "' is neither a record id nor a leaf index", "",
                 "see verbatim log list"};
  }
  return std::vector<std::uint64_t>{index};
}

/// Those leaves themselves. `erased` if one was pruned.
Result<std::vector<audit::StoredLeaf>> leaves_named(audit::LogReader& reader,
                                                    const std::string& id) {
  const auto indices = indices_named(reader, id);
  if (!indices) return indices.error();
  std::vector<audit::StoredLeaf> leaves;
  for (const std::uint64_t index : *indices) {
    auto leaf = reader.leaf(index);
    if (!leaf) return leaf.error();
    leaves.push_back(std::move(*leaf));
  }
  return leaves;
}

/// A leaf with its proof; of one that was pruned its hash, and which leaf says so.
Result<OrderedJson> shown_leaf(audit::LogReader& reader, std::uint64_t index, std::uint64_t size) {
  const auto leaf = reader.leaf(index);
  if (!leaf && leaf.error().code != Errc::erased) return leaf.error();
  const auto hash = audit::stored_leaf_hash(reader.data_dir(), index);
  if (!hash) return hash.error();
  const auto proof = reader.inclusion_proof(index, size);
  if (!proof) return proof.error();
  OrderedJson hashes = OrderedJson::array();
  for (const Digest& each : *proof) hashes.push_back(each.hex());
  OrderedJson shown = {{"index", index},
                       {"leaf_hash", hash->hex()},
                       {"leaf", leaf ? OrderedJson::parse(leaf->bytes) : OrderedJson()}};
  if (!leaf) {
    shown["verdict"] = "PRUNED";
    shown["pruned"] = leaf.error().what;
  }
  shown["inclusion_proof"] = std::move(hashes);
  return Result<OrderedJson>(boost::system::in_place_value, std::move(shown));
}

/// Reading contents is itself recorded, before they are shown.
Result<void> record_access(const Context& context, const audit::StoredLeaf& leaf,
                           const Json& fields) {
  audit::LeafDraft draft;
  draft.type = "access";
  draft.fields = {{"record", leaf.json.at("id")}, {"fields", fields}, {"actor", actor()}};
  const auto appended = append_leaf(context, std::move(draft));
  if (!appended) return appended.error();
  return {};
}

Result<OrderedJson> contents_of(const Context& context, audit::LogReader& reader,
                                const std::vector<audit::StoredLeaf>& leaves) {
  Json fields = Json::array();
  for (const auto& leaf : leaves) {
    for (const Json& content : leaf.json.value("contents", Json::array())) {
      fields.push_back(content.at("field"));
    }
  }
  const auto recorded = record_access(context, leaves.front(), fields);
  if (!recorded) return recorded.error();

  OrderedJson contents = OrderedJson::object();
  for (const auto& leaf : leaves) {
    for (const Json& content : leaf.json.value("contents", Json::array())) {
      const std::string field = content.at("field");
      auto opened = reader.content(leaf.index, field);
      if (opened) {
        // Text as it is; other bytes in base64, so that nothing is lost.
        contents[field] = is_utf8(opened->bytes)
                              ? OrderedJson{{"text", opened->bytes}}
                              : OrderedJson{{"base64", to_base64(as_bytes(opened->bytes))}};
      } else if (opened.error().code == Errc::erased) {
        contents[field] = {{"erased", opened.error().what}};
      } else {
        return opened.error();
      }
    }
  }
  return Result<OrderedJson>(boost::system::in_place_value, std::move(contents));
}

/// An exchange under OpenTelemetry's names beside its leaves.
void add_span(OrderedJson& out) {
  const auto leaf = [&](std::size_t at, const char* type) {
    const OrderedJson& leaves = out.at("leaves");
    const bool is_it = at < leaves.size() && leaves[at].at("leaf").is_object() &&
                       leaves[at]["leaf"].value("type", "") == type;
    return is_it ? Json(leaves[at]["leaf"]) : Json();
  };
  const Json request = leaf(0, "request");
  if (!request.is_null()) out["opentelemetry"] = opentelemetry_span(request, leaf(1, "response"));
}

/// What an answer says, beside the bytes that said it: of a stream the whole text.
void add_answers(OrderedJson& out) {
  const OrderedJson& leaves = out.at("leaves");
  const OrderedJson& contents = out.at("contents");
  if (!leaves.front().at("leaf").is_object() || !contents.contains("response.body") ||
      !contents["response.body"].contains("text")) {
    return;
  }
  const auto api = replay::served_api(Json(leaves.front()["leaf"]));
  if (!api) return;
  const auto whole = replay::whole_answer(*api, contents["response.body"]["text"]);
  const auto choices = whole ? replay::answer_choices(*api, *whole)
                             : std::optional<std::vector<replay::AnswerChoice>>();
  if (!choices) return;
  OrderedJson answers = OrderedJson::array();
  for (const replay::AnswerChoice& choice : *choices) {
    OrderedJson answer = {{"text", choice.text}, {"finish", choice.finish}};
    if (!choice.beside.empty()) answer["beside"] = choice.beside;
    answers.push_back(std::move(answer));
  }
  out["answers"] = std::move(answers);
}

int run_show(const Context& context, const std::string& id, bool with_contents) {
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return fail(reader.error());
  const auto indices = indices_named(**reader, id);
  if (!indices) return fail(indices.error());
  const auto size = (*reader)->size();
  if (!size) return fail(size.error());

  OrderedJson out;
  out["id"] = id;
  out["tree_size"] = *size;
  out["leaves"] = OrderedJson::array();
  for (const std::uint64_t index : *indices) {
    auto shown = shown_leaf(**reader, index, *size);
    if (!shown) return fail(shown.error());
    if (shown->at("leaf").is_object()) out["id"] = shown->at("leaf").value("id", "");
    out["leaves"].push_back(std::move(*shown));
  }
  add_span(out);
  if (with_contents) {
    const auto leaves = leaves_named(**reader, id);
    if (!leaves) return fail(leaves.error());
    auto contents = contents_of(context, **reader, *leaves);
    if (!contents) return fail(contents.error());
    out["contents"] = std::move(*contents);
    add_answers(out);
  }
  if (context.json) {
    print_json(out);
  } else {
    print_shown(std::cout, out);
  }
  return kDone;
}

struct SubjectFlags {
  std::string credential, gateway_key;
  bool anonymous = false;
};

/// What the gateway made the handle of: gateway/exchange.cpp.
Result<std::string> who(const SubjectFlags& flags) {
  const int named = (flags.credential.empty() ? 0 : 1) + (flags.gateway_key.empty() ? 0 : 1) +
                    (flags.anonymous ? 1 : 0);
  if (named != 1) {
    return Error{Errc::invalid_input, "name one thing", "",
                 "give --credential FILE, --gateway-key HASH or --anonymous"};
  }
  if (flags.anonymous) return std::string("anonymous");
  if (!flags.gateway_key.empty()) {
    const auto hash = gateway::parse_key_hash(flags.gateway_key);
    const std::string id = hash ? hash->id : flags.gateway_key;
    if (id.size() == 8 && id.find_first_not_of("0123456789abcdef") == std::string::npos) {
      return "gateway-key:" + id;
    }
    return Error{Errc::invalid_input, "this names no key of the gateway's", "--gateway-key",
                 "give the hash from its [[key]] section, or the 8 digits behind vb-"};
  }
  auto text = read_input(flags.credential);
  if (!text) return text;
  const std::size_t end = text->find_last_not_of(" \t\r\n");
  const std::size_t begin = text->find_first_not_of(" \t\r\n");
  return text->substr(begin, end + 1 - begin);
}

int run_subject(const Context& context, const SubjectFlags& flags) {
  const auto named = who(flags);
  if (!named) return fail(named.error());
  const auto handle = audit::subject_handle(context.data, *named);
  if (!handle) return fail(handle.error());
  if (context.json) {
    print_json({{"subject", *handle}});
  } else {
    std::cout << *handle << '\n';
  }
  return kDone;
}

int run_checkpoint(const Context& context) {
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return fail(reader.error());
  const auto note = (*reader)->checkpoint();
  if (!note) return fail(note.error());
  if (!context.json) {
    std::cout << *note;
    return kDone;
  }
  const auto size = (*reader)->size();
  if (!size) return fail(size.error());
  print_json({{"checkpoint", *note},
              {"origin", (*reader)->origin()},
              {"size", *size},
              {"vkey", (*reader)->vkey()}});
  return kDone;
}

struct ReceiptFlags {
  std::string id;
  bool cosigned = false, stamped = false;
};

/// A receipt's checkpoint, and a time stamp of it: the newest without one, unless something else is asked for.
Result<std::pair<std::string, std::string>> vouched_checkpoint(const Context& context,
                                                               const ReceiptFlags& flags,
                                                               std::uint64_t size_min) {
  if (flags.stamped) {
    auto timestamp = oldest_stamped(context, size_min);
    if (!timestamp) return timestamp.error();
    return std::pair(std::move(timestamp->note), std::move(timestamp->token.der));
  }
  if (!flags.cosigned) return std::pair(std::string(), std::string());
  auto note = newest_cosigned(context, size_min);
  if (!note) return note.error();
  return std::pair(std::move(*note), std::string());
}

int run_receipt(const Context& context, const ReceiptFlags& flags) {
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return fail(reader.error());
  const auto leaves = leaves_named(**reader, flags.id);
  if (!leaves) return fail(leaves.error());
  // The newest leaf of a record is its response: the one whose inclusion says how the exchange ended.
  const audit::StoredLeaf& leaf = leaves->back();
  const auto vouched = vouched_checkpoint(context, flags, leaf.index + 1);
  if (!vouched) return fail(vouched.error());
  const auto receipt = (*reader)->receipt(leaf.index, vouched->first, vouched->second);
  if (!receipt) return fail(receipt.error());
  if (context.json) {
    print_json({{"receipt", *receipt},
                {"leaf", leaf.bytes},
                {"index", leaf.index},
                {"vkey", (*reader)->vkey()}});
  } else {
    std::cout << *receipt;
  }
  return kDone;
}

}  // namespace

void add_log(CLI::App& app, Context& context) {
  CLI::App* log = app.add_subcommand("log", "list and show records");
  log->require_subcommand(1);
  log->footer("Example:\n  verbatim log list --limit 20");

  auto flags = std::make_shared<ListFlags>();
  CLI::App* list = log->add_subcommand("list", "one line a record, oldest first");
  list->add_option("--since", flags->since, "RFC 3339 time or date");
  list->add_option("--until", flags->until, "RFC 3339 time or date");
  list->add_option("--model", flags->model, "requested model");
  list->add_option("--status", flags->status, "complete, cache_hit, client_disconnect, ...")
      ->check(exchange_status());
  list->add_option("--tenant", flags->tenant, "of this tenant");
  list->add_option("--subject", flags->subject,
                   "of this subject's handle (verbatim log subject); reads each record's leaf");
  list->add_option("--limit", flags->limit, "at most so many; the newest are kept")
      ->check(whole_number(1));
  list->add_flag("--all-types", flags->all_types, "leaves of every type, not exchanges alone");
  add_common(*list, context, "verbatim log list --since 2026-11-01 --status complete --json");
  list->callback([&context, flags] { context.exit_code = run_list(context, *flags); });

  auto subject_flags = std::make_shared<SubjectFlags>();
  CLI::App* subject = log->add_subcommand(
      "subject", "the handle under which this log knows a credential: for list, erase and hold");
  subject->add_option("--credential", subject_flags->credential,
                      "file with the provider's key as the client sends it; - is stdin");
  subject->add_option("--gateway-key", subject_flags->gateway_key,
                      "a key of the gateway's: its hash in the configuration, or its 8 digits");
  subject->add_flag("--anonymous", subject_flags->anonymous, "who sent no credential");
  add_common(*subject, context,
             "verbatim log list --subject \"$(verbatim log subject --credential - < key.txt)\"");
  subject->callback(
      [&context, subject_flags] { context.exit_code = run_subject(context, *subject_flags); });

  auto id = std::make_shared<std::string>();
  auto with_contents = std::make_shared<bool>(false);
  CLI::App* show =
      log->add_subcommand("show", "a record's leaves; with --json also their inclusion proofs");
  show->add_option("ID", *id, "record id or leaf index")->required();
  show->add_flag("--contents", *with_contents,
                 "also request and response; recorded as an access leaf");
  add_common(*show, context, "verbatim log show 0193a5e0-7c1a-7b3e-9d2f-0123456789ab --contents");
  show->callback([&context, id, with_contents] {
    context.exit_code = run_show(context, *id, *with_contents);
  });

  CLI::App* checkpoint = app.add_subcommand("checkpoint", "the newest signed checkpoint");
  add_common(*checkpoint, context, "verbatim checkpoint > kept-by-the-auditor.txt");
  checkpoint->callback([&context] { context.exit_code = run_checkpoint(context); });

  auto receipt_flags = std::make_shared<ReceiptFlags>();
  CLI::App* receipt =
      app.add_subcommand("receipt", "a record's tlog-proof, which verifies without the log");
  receipt->add_option("ID", receipt_flags->id, "record id or leaf index")->required();
  add_common(*receipt, context,
             "verbatim receipt 0193a5e0-7c1a-7b3e-9d2f-0123456789ab > r.tlog-proof\n"
             "  verbatim verify --receipt r.tlog-proof --key \"$(cat log.vkey)\"");
  CLI::Option* cosigned =
      receipt->add_flag("--cosigned", receipt_flags->cosigned,
                        "under the newest checkpoint that witnesses cosigned, not the newest");
  receipt
      ->add_flag("--stamped", receipt_flags->stamped,
                 "under the oldest checkpoint that has a time stamp, and with it")
      ->excludes(cosigned);
  receipt->callback(
      [&context, receipt_flags] { context.exit_code = run_receipt(context, *receipt_flags); });
}

}  // namespace verbatim::cli
