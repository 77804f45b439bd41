// The server's endpoints: who may call what, and which function answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "lily/engine.hpp"
#include "serve/admission.hpp"
#include "serve/http_types.hpp"
#include "serve/server.hpp"

namespace lily::serve {

class Api : public Application {
 public:
  explicit Api(const ServerOptions& options);

  void attach(Engine& engine);
  bool attached() const noexcept { return engine_.load(std::memory_order_acquire) != nullptr; }

  std::optional<HttpReply> admit(const HttpRequest& request) override;
  HttpReply handle(HttpRequest request, const Peer& peer) override;
  HttpReply refuse(const HttpRequest& request, int status, std::string_view reason) override;

 private:
  HttpReply health(const Peer& peer) const;
  HttpReply models() const;
  HttpReply model(std::string_view id) const;
  HttpReply chat(HttpRequest request, const Peer& peer, const std::string& request_id);
  Json model_card() const;
  // Logs a refusal and adds the headers that every reply has.
  HttpReply finish(const HttpRequest& request, HttpReply reply) const;
  HttpReply refusal(const HttpRequest& request, const struct ApiError& error) const;

  const ServerOptions options_;
  const std::int64_t started_;
  Admission admission_;
  std::string model_id_;  // set before engine_
  std::atomic<Engine*> engine_{nullptr};
};

}  // namespace lily::serve
