#pragma once
// Which upstream answers a request: the local model of that name, else the upstream of the
// request's dialect, else the first given.

#include "gateway/dialect.hpp"
#include "gateway/upstream.hpp"

#include <memory>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

class Router {
 public:
  struct Remote {
    std::shared_ptr<Upstream> upstream;  // shared with the exchanges that ask it
    Dialect dialect = Dialect::openai;
  };

  /// In place of those before, whose idle connections are closed.
  void set_remotes(std::vector<Remote> remotes);
  /// At most one: it serves all local models.
  void set_local(std::unique_ptr<Upstream> local, std::vector<std::string> models);

  /// Null when nothing serves the request: an unknown model, and no remote upstream.
  ///
  /// The list of models is answered from the local ones where there are any: a remote's list would
  /// be another's words, and the two cannot be joined without rewriting them. A single model is
  /// looked up by name.
  [[nodiscard]] std::shared_ptr<Upstream> choose(const RequestHead& head, Api api,
                                                 const RequestFacts& facts) const;

  [[nodiscard]] const std::vector<Remote>& remotes() const { return remotes_; }
  [[nodiscard]] bool has_local_model(std::string_view name) const;
  void drain();

 private:
  std::vector<Remote> remotes_;
  std::shared_ptr<Upstream> local_;
  std::vector<std::string> local_models_;
};

/// The {id} of GET /v1/models/{id}, percent-decoded; "" for the list.
[[nodiscard]] std::string model_of_path(std::string_view target);

}  // namespace verbatim::gateway
