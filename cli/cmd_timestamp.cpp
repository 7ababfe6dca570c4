// verbatim timestamp ask|query|add|list: have an authority say when a checkpoint was there (RFC 3161).

#include "audit/json_member.hpp"
#include "audit/reader.hpp"
#include "audit/timestamp.hpp"
#include "cli/command.hpp"
#include "cli/http_post.hpp"
#include "cli/show_text.hpp"

#include <iostream>
#include <memory>

namespace verbatim::cli {

namespace {

struct TimestampFlags {
  std::string tsa, tsa_ca, ca_file, query, response;
};

/// Whom to trust for time; nothing if no file was named.
Result<std::optional<audit::TimestampTrust>> trust_from(const std::string& file) {
  if (file.empty()) return std::optional<audit::TimestampTrust>();
  const auto pem = read_input(file);
  if (!pem) return pem.error();
  auto trust = audit::TimestampTrust::from_pem(*pem);
  if (trust) return std::optional(std::move(*trust));
  Error error = trust.error();
  error.where = file;
  return error;
}

OrderedJson json_of(std::uint64_t index, const audit::Timestamp& timestamp,
                    const std::optional<audit::TimestampTrust>& trust) {
  const auto trusted =
      trust ? trust->check(timestamp.token) : Result<void>(Error{Errc::unsupported, "", "", ""});
  return {{"index", index},
          {"size", timestamp.head.size},
          {"root", timestamp.head.root.hex()},
          {"time", format_rfc3339(timestamp.token.time_us)},
          {"tsa", timestamp.token.tsa},
          {"trusted", trust ? OrderedJson(trusted.has_value()) : OrderedJson()},
          {"error", trust && !trusted ? OrderedJson(trusted.error().what) : OrderedJson()}};
}

void print_line(const OrderedJson& stamp) {
  const OrderedJson& trusted = stamp.at("trusted");
  std::cout << "leaf " << stamp.at("index") << "  size " << stamp.at("size") << "  "
            << stamp.at("time").get<std::string>() << "  "
            << one_line(stamp.at("tsa").get<std::string>())
            << (trusted.is_null() ? "  (not checked: --tsa-ca)"
                : trusted         ? "  trusted"
                          : "  NOT TRUSTED: " + one_line(stamp.value("error", std::string())))
            << '\n';
}

/// The leaf that keeps this very token already, if there is one.
Result<std::optional<std::uint64_t>> leaf_with(const Context& context,
                                               const audit::TimestampToken& token) {
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return reader.error();
  std::optional<std::uint64_t> index;
  const auto read = (*reader)->timestamps([&](const audit::StoredLeaf& leaf) {
    const auto kept = audit::read_timestamp(leaf.json);
    if (kept && kept->token.der == token.der) index = leaf.index;
    return !index.has_value();
  });
  if (!read) return read.error();
  return index;
}

/// Checks an answer to `query` about `note`, and appends the leaf that keeps its token.
int keep(const Context& context, const TimestampFlags& flags, const std::string& note,
         const std::string& query, const std::string& answer, const std::string& from) {
  const auto trust = trust_from(flags.tsa_ca);
  if (!trust) return fail(trust.error());
  auto token = audit::open_timestamp_answer(answer, query);
  const auto timestamp =
      token ? audit::stamped(note, std::move(*token)) : Result<audit::Timestamp>(token.error());
  const auto trusted = timestamp && *trust ? (*trust)->check(timestamp->token) : Result<void>();
  if (!timestamp || !trusted) {
    Error error = timestamp ? trusted.error() : timestamp.error();
    if (error.where.empty()) error.where = from;
    return fail(error);
  }
  const auto kept_already = leaf_with(context, timestamp->token);
  if (!kept_already) return fail(kept_already.error());
  if (*kept_already) {
    return fail(Error{Errc::invalid_input,
                      "leaf " + std::to_string(**kept_already) + " keeps this time stamp already",
                      from, "nothing to do"});
  }
  static const SystemClock clock;
  const auto appender = audit::open_appender(context.data, clock, warn);
  if (!appender) return fail(appender.error());
  const auto appended = (*appender)->append_and_wait(audit::timestamp_draft(*timestamp, actor()));
  if (!appended) return fail(appended.error());
  const OrderedJson kept = json_of(appended->index, *timestamp, *trust);
  if (context.json) {
    print_json(kept);
  } else {
    print_line(kept);
  }
  return kDone;
}

/// The path of the authority's URL exactly: elsewhere a slash or "/v1" at the end means nothing.
std::string path_of(const std::string& url) {
  const std::size_t path = url.find('/', url.find("://") + 3);
  return path == std::string::npos ? "/" : url.substr(path);
}

int run_ask(const Context& context, const TimestampFlags& flags) {
  auto base = gateway::parse_base_url(flags.tsa);
  if (!base) return fail(base.error());
  base->prefix.clear();
  base->version.clear();
  // Before anybody is asked: a typing error is no reason to.
  if (const auto trust = trust_from(flags.tsa_ca); !trust) return fail(trust.error());
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return fail(reader.error());
  const auto note = (*reader)->signed_checkpoint();
  if (!note) return fail(note.error());
  const std::string query = audit::make_timestamp_query(sha256(*note));
  const auto answer =
      post({"the time-stamping authority", flags.tsa, *base, path_of(flags.tsa),
            "application/timestamp-query", query, flags.ca_file, audit::kTimestampAnswerBytesMax});
  if (!answer) return fail(answer.error());
  if (answer->status != 200) {
    return fail(
        Error{Errc::upstream_failed,
              "the time-stamping authority answers with status " + std::to_string(answer->status),
              flags.tsa, ""});
  }
  return keep(context, flags, *note, query, answer->body, flags.tsa);
}

int run_query(const Context& context, const std::string& out) {
  if (const auto possible = check_outputs({out}); !possible) return fail(possible.error());
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return fail(reader.error());
  const auto note = (*reader)->signed_checkpoint();
  if (!note) return fail(note.error());
  const Digest imprint = sha256(*note);
  const auto written = write_output(out, audit::make_timestamp_query(imprint));
  if (!written) return fail(written.error());
  if (context.json) {
    print_json({{"out", out}, {"imprint", imprint.hex()}});
  } else {
    std::cout << "wrote " << one_line(out) << ": have it answered, then verbatim timestamp add\n";
  }
  return kDone;
}

int run_add(const Context& context, const TimestampFlags& flags) {
  const auto query = read_input(flags.query);
  if (!query) return fail(query.error());
  const auto answer = read_input(flags.response);
  if (!answer) return fail(answer.error());
  const auto imprint = audit::timestamp_query_imprint(*query);
  if (!imprint) {
    Error error = imprint.error();
    error.where = flags.query;
    return fail(error);
  }
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return fail(reader.error());
  const auto note = (*reader)->checkpoint_with(*imprint);
  if (!note) return fail(note.error());
  return keep(context, flags, *note, *query, *answer, flags.response);
}

int run_list(const Context& context, const TimestampFlags& flags) {
  const auto trust = trust_from(flags.tsa_ca);
  if (!trust) return fail(trust.error());
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return fail(reader.error());
  OrderedJson stamps = OrderedJson::array();
  Result<void> formed;
  bool all_trusted = true;
  const auto read = (*reader)->timestamps([&](const audit::StoredLeaf& leaf) {
    const auto timestamp = audit::read_timestamp(leaf.json);
    if (!timestamp) {
      formed = Error{Errc::tampered,
                     "leaf " + std::to_string(leaf.index) + ": " + timestamp.error().what,
                     context.data, "verify the log"};
      return false;
    }
    stamps.push_back(json_of(leaf.index, *timestamp, *trust));
    all_trusted = all_trusted && stamps.back().at("trusted") != false;
    if (!context.json) print_line(stamps.back());
    return true;
  });
  if (!read) return fail(read.error());
  if (!formed) return fail(formed.error());
  if (context.json) print_json({{"timestamps", std::move(stamps)}});
  return all_trusted ? kDone : kBadFinding;
}

void add_trust(CLI::App& command, TimestampFlags& flags) {
  command.add_option(
      "--tsa-ca", flags.tsa_ca,
      "certificates (PEM) that the authority's must lead to; without it, whose stamp "
      "it is is not checked");
}

}  // namespace

Result<audit::Timestamp> oldest_stamped(const Context& context, std::uint64_t size_min) {
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return reader.error();
  Result<audit::Timestamp> found =
      Error{Errc::not_found,
            "no checkpoint of " + std::to_string(size_min) + " leaves or more has a time stamp",
            context.data, "ask for one first: verbatim timestamp ask"};
  const auto read = (*reader)->timestamps([&](const audit::StoredLeaf& leaf) {
    const Json* const size = audit::member(leaf.json, "size");
    if (size == nullptr || !size->is_number_unsigned() || *size < size_min) return true;
    found = audit::read_timestamp(leaf.json);
    return false;
  });
  if (!read) return read.error();
  return found;
}

void add_timestamp(CLI::App& app, Context& context) {
  CLI::App* timestamp =
      app.add_subcommand("timestamp", "have an authority say when a checkpoint was there");
  timestamp->require_subcommand(1);
  timestamp->footer(
      "Example:\n  verbatim timestamp ask --tsa https://tsa.example/ --tsa-ca ca.pem");
  auto flags = std::make_shared<TimestampFlags>();

  CLI::App* ask = timestamp->add_subcommand(
      "ask",
      "ask a time-stamping authority (RFC 3161) about the newest checkpoint, and keep its word");
  ask->add_option("--tsa", flags->tsa, "its URL")->required();
  add_trust(*ask, *flags);
  ask->add_option("--ca-file", flags->ca_file,
                  "certificates to trust for https (PEM), not the system's");
  add_common(*ask, context, "verbatim timestamp ask --tsa https://tsa.example/ --tsa-ca ca.pem");
  ask->callback([&context, flags] { context.exit_code = run_ask(context, *flags); });

  CLI::App* query = timestamp->add_subcommand(
      "query",
      "write a query about the newest checkpoint, for an authority that is not reached from here");
  query->add_option("--out", flags->query, "where to write it (DER)")->required();
  add_common(*query, context, "verbatim timestamp query --out checkpoint.tsq");
  query->callback([&context, flags] { context.exit_code = run_query(context, flags->query); });

  CLI::App* add =
      timestamp->add_subcommand("add", "take in what the authority answered to a query");
  add->add_option("--query", flags->query, "what was asked")->required();
  add->add_option("--response", flags->response, "what it answered (DER)")->required();
  add_trust(*add, *flags);
  add_common(*add, context,
             "verbatim timestamp add --query checkpoint.tsq --response checkpoint.tsr");
  add->callback([&context, flags] { context.exit_code = run_add(context, *flags); });

  CLI::App* list = timestamp->add_subcommand("list", "the time stamps, oldest first");
  add_trust(*list, *flags);
  add_common(*list, context, "verbatim timestamp list --tsa-ca ca.pem --json");
  list->callback([&context, flags] { context.exit_code = run_list(context, *flags); });
}

}  // namespace verbatim::cli
