// Risk: the trained model, the chat format, the call parser and the server do not work together for an agent.
#include <gtest/gtest.h>

#include "serve/openai_script.hpp"
#include "serve/running_server.hpp"

namespace lily::serve_test {
namespace {

TEST(ToolLoop, FourStepsWithTheOfficialClientEndInTheRightAnswer) {
  if (const auto reason = openai_client_missing()) GTEST_SKIP() << *reason;
  RunningServer server(0, {}, testing::kMini);
  ASSERT_TRUE(server.ready) << server.process.error_text();
  const ScriptResult result = run_openai_client("tool_loop.mjs", server.port);
  EXPECT_EQ(result.status, 0) << result.output;
}

}  // namespace
}  // namespace lily::serve_test
