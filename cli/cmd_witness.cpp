// verbatim witness serve|ask: cosign the checkpoints of others, and have others cosign this log's.

#include "audit/cosigned.hpp"
#include "audit/reader.hpp"
#include "audit/witness.hpp"
#include "cli/command.hpp"
#include "cli/http_post.hpp"
#include "cli/policy_file.hpp"
#include "cli/show_text.hpp"
#include "gateway/witness_server.hpp"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <memory>

namespace verbatim::cli {

namespace {

const SystemClock& system_clock() {
  static const SystemClock clock;
  return clock;
}

// ---- serve ----

struct ServeFlags {
  std::string listen = "127.0.0.1:8081", state = "./verbatim-witness", name;
  std::vector<std::string> logs;
};

int run_serve(const Context& context, const ServeFlags& flags) {
  const auto listen = gateway::parse_host_port(flags.listen);
  if (!listen) return fail(listen.error());
  std::vector<audit::VerifierKey> logs;
  for (const std::string& log : flags.logs) {
    const auto text = read_key(log);
    if (!text) return fail(text.error());
    const auto key = audit::parse_vkey(*text);
    if (!key) return fail(key.error());
    logs.push_back(*key);
  }
  const auto witness = audit::Witness::open(flags.state, flags.name, logs, system_clock());
  if (!witness) return fail(witness.error());
  const auto server = gateway::WitnessServer::start(*listen, **witness, system_clock());
  if (!server) return fail(server.error());
  const std::string url = "http://" + (*server)->address().str();
  if (context.json) {
    print_json({{"listening", url}, {"vkey", (*witness)->key().str()}});
  } else {
    std::cout << "listening on " << url << "\nwitness " << one_line(flags.name) << ' '
              << (*witness)->key().str() << ' ' << url << std::endl;
  }
  (*server)->run();
  return kDone;
}

// ---- ask ----

struct AskFlags {
  std::string policy, ca_file;
};

/// The checkpoint that is to be cosigned.
struct Head {
  std::string note;
  std::uint64_t size = 0;
};

/// One POST of add-checkpoint.
Result<gateway::EndpointAnswer> ask_to_add(const AskFlags& flags, const std::string& url,
                                           const std::string& body) {
  const auto base = gateway::parse_base_url(url);
  if (!base) return base.error();
  return post({"the witness", url, *base, "/add-checkpoint", "text/plain; charset=utf-8", body,
               flags.ca_file, audit::kNoteBytesMax});
}

/// The size in a 409's body.
Result<std::uint64_t> size_of_conflict(const std::string& body, const std::string& url) {
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), size);
  if (error == std::errc() && std::string_view(end) == "\n") return size;
  return Error{Errc::upstream_failed, "the witness's conflict names no size", url, ""};
}

/// The largest tree that this witness has cosigned, as far as is known here.
std::uint64_t last_known(const std::filesystem::path& data, const audit::VerifierKey& witness) {
  const auto notes = audit::cosigned_checkpoints(data);
  for (auto note = notes.rbegin(); note != notes.rend(); ++note) {
    const auto parsed = audit::parse_note(note->second);
    if (!parsed) continue;
    for (const audit::NoteSignature& signature : parsed->signatures) {
      if (audit::verify_cosignature(signature, parsed->text, witness)) return note->first;
    }
  }
  return 0;
}

/// What it said, in a line, and what to do about it.
Error refusal(const audit::Policy::Witness& witness, unsigned status, const std::string& body) {
  constexpr std::size_t kSaidMax = 200;
  const std::string said = body.substr(0, std::min(body.find('\n'), kSaidMax));
  Error error{Errc::upstream_failed,
              "the witness refuses with " + std::to_string(status) +
                  (said.empty() ? "" : ": " + (is_utf8(said) ? said : "(no text)")),
              witness.url, ""};
  if (status == 403) {
    error.advice =
        "it knows the log, and no key that signs it now: after keys rotate or keys retire it is "
        "started with --log of the new key too (verbatim keys list)";
  } else if (status == 404) {
    error.advice = "it is started with --log of this log's key (verbatim keys list)";
  } else if (status == 422) {
    error.code = Errc::tampered;
    error.advice = "what it cosigned is no part of this log: run verbatim verify; docs/backup.md";
  }
  return error;
}

Result<std::string> request_from(const std::filesystem::path& data, const Head& head,
                                 std::uint64_t old_size) {
  audit::WitnessRequest request{old_size, {}, head.note};
  if (old_size > head.size) {
    return Error{Errc::tampered,
                 "the witness has cosigned a tree of " + std::to_string(old_size) +
                     " leaves of this log, which has " + std::to_string(head.size),
                 data.string(),
                 "the log was rolled back, restored or cut: run verbatim verify; docs/backup.md"};
  }
  if (old_size > 0) {
    auto proof = audit::consistency_proof(data, old_size, head.size);
    if (!proof) return proof.error();
    request.proof = std::move(*proof);
  }
  return audit::format_witness_request(request);
}

/// Asks one witness, again with the size that it names if it knows another than was thought.
Result<void> ask_one(const Context& context, const AskFlags& flags, const Head& head,
                     const audit::Policy::Witness& witness) {
  std::uint64_t old_size = std::min(last_known(context.data, witness.key), head.size);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto body = request_from(context.data, head, old_size);
    if (!body) return body.error();
    const auto answer = ask_to_add(flags, witness.url, *body);
    if (!answer) return answer.error();
    if (answer->status == 200) {
      return audit::keep_cosignature(context.data, head.note, witness.key, answer->body);
    }
    if (answer->status != 409) return refusal(witness, answer->status, answer->body);
    const auto size = size_of_conflict(answer->body, witness.url);
    if (!size) return size.error();
    old_size = *size;
  }
  return Error{Errc::upstream_failed, "the witness names another size each time", witness.url,
               "somebody else has it cosign this log at the same time: try again"};
}

int run_ask(const Context& context, const AskFlags& flags) {
  const auto text = read_policy(flags.policy);
  if (!text) return fail(text.error());
  const auto policy = audit::Policy::parse(*text);
  if (!policy) return fail(policy.error());
  const auto reader = audit::LogReader::open(context.data);
  if (!reader) return fail(reader.error());
  const auto note = (*reader)->checkpoint();
  if (!note) return fail(note.error());
  const auto parsed = audit::parse_note(*note);
  const auto checkpoint = audit::parse_checkpoint_text(parsed->text);
  const Head head{*note, checkpoint->size};

  OrderedJson results = OrderedJson::array();
  std::optional<Error> worst;
  for (const audit::Policy::Witness& witness : policy->witnesses()) {
    if (witness.url.empty()) continue;
    const auto asked = ask_one(context, flags, head, witness);
    if (!asked && (!worst || asked.error().code == Errc::tampered)) worst = asked.error();
    results.push_back({{"name", witness.name},
                       {"url", witness.url},
                       {"cosigned", asked.has_value()},
                       {"error", asked ? OrderedJson() : OrderedJson(asked.error().message())}});
  }
  const std::string cosigned = audit::with_cosignatures(context.data, head.note);
  const bool quorum = policy->met_by(*audit::parse_note(cosigned));
  if (context.json) {
    print_json({{"size", head.size}, {"quorum", quorum}, {"witnesses", std::move(results)}});
  } else {
    for (const OrderedJson& result : results) {
      std::cout << one_line(result.at("name").get<std::string>()) << "  "
                << (result.at("cosigned") == true ? "cosigned"
                                                  : one_line(result.at("error").get<std::string>()))
                << '\n';
    }
  }
  // A witness that contradicts the log is a finding, whatever others say.
  if (worst && (worst->code == Errc::tampered || !quorum)) return fail(*worst);
  if (quorum) return kDone;
  return fail(Error{Errc::unavailable, "the policy's quorum has not cosigned", flags.policy,
                    "witnesses without a URL in the policy are not asked"});
}

}  // namespace

Result<std::string> newest_cosigned(const Context& context, std::uint64_t size_min) {
  const auto notes = audit::cosigned_checkpoints(context.data);
  if (!notes.empty() && notes.rbegin()->first >= size_min) return notes.rbegin()->second;
  return Error{Errc::not_found,
               "no checkpoint of " + std::to_string(size_min) + " leaves or more was cosigned",
               context.data, "ask witnesses first: verbatim witness ask"};
}

void add_witness(CLI::App& app, Context& context) {
  CLI::App* witness = app.add_subcommand("witness", "have checkpoints cosigned by others");
  witness->require_subcommand(1);
  witness->footer("Example:\n  verbatim witness ask --policy policy.txt");

  auto serve_flags = std::make_shared<ServeFlags>();
  CLI::App* serve = witness->add_subcommand("serve", "cosign the checkpoints of logs, over HTTP");
  serve->add_option("--listen", serve_flags->listen, "HOST:PORT; port 0 picks a free one")
      ->capture_default_str();
  serve->add_option("--state", serve_flags->state, "folder of its key and memory")
      ->capture_default_str();
  serve->add_option("--name", serve_flags->name, "its name, for example witness.example/w1")
      ->required();
  serve
      ->add_option("--log", serve_flags->logs,
                   "a log's public key (vkey), or a file that holds it; may be given again")
      ->required();
  add_common(*serve, context, "verbatim witness serve --name witness.example/w1 --log log.vkey");
  serve->callback(
      [&context, serve_flags] { context.exit_code = run_serve(context, *serve_flags); });

  auto ask_flags = std::make_shared<AskFlags>();
  CLI::App* ask = witness->add_subcommand(
      "ask", "have the policy's witnesses cosign the newest checkpoint, and keep what they say");
  ask->add_option("--policy", ask_flags->policy, "tlog-policy file that names them, with URLs")
      ->required();
  ask->add_option("--ca-file", ask_flags->ca_file, "certificates to trust (PEM), not the system's");
  add_common(*ask, context, "verbatim witness ask --policy policy.txt");
  ask->callback([&context, ask_flags] { context.exit_code = run_ask(context, *ask_flags); });
}

}  // namespace verbatim::cli
