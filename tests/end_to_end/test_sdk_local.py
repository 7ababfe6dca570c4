"""The official SDKs against the demo model: each call's record is in the log, and replays bit for bit."""
import support


class SdkAgainstTheLocalModel(support.ProgramTest):
    def check(self, script, *args):
        support.node_or_skip()
        gateway = self.gateway("--model", f"demo={support.DEMO_MODEL}")
        told = support.run_node(script, *args, gateway.url + ("/v1" if "openai" in script else ""))
        with support.eventually() as wait:
            for call in told:
                leaves = wait(lambda: "response" in self.leaves(call["record"]) and self.leaves(call["record"]),
                              f"a response leaf of {call}")
                status = leaves["response"]["status"]
                if call["name"] == "error":
                    self.assertEqual((status, leaves["response"]["http_status"]), ("rejected", call["status"]), call)
                elif call["name"] == "aborted":
                    self.assertIn(status, ("client_disconnect", "complete"), call)
                else:
                    self.assertIn(status, ("complete", "cache_hit"), call)
                    if not call["name"].endswith("stream"):
                        body = self.contents(call["record"])["response.body"].decode()
                        self.assertIn(call.get("text", "")[:10], body)
        self.assertEqual(gateway.stop(), 0)
        self.assert_valid()
        replayed = self.run_well("replay", "--all", "--data", self.data, "--engine", f"demo={support.DEMO_MODEL}",
                                 "--json").json
        summary = replayed["summary"]
        self.assertEqual(summary["DIVERGED"], 0, replayed)
        self.assertGreaterEqual(summary["BITWISE"], 3, replayed)
        seeded = [call["record"] for call in told if call["name"] == "seeded"]
        verdicts = {r["id"]: r["verdict"] for r in replayed["records"]}
        for record in seeded:
            self.assertEqual(verdicts[record], "BITWISE")

    def test_openai_7(self):
        self.check("sdk_openai.mjs", "openai-7")

    def test_openai_6(self):
        self.check("sdk_openai.mjs", "openai-6")

    def test_anthropic_1(self):
        self.check("sdk_anthropic.mjs")


if __name__ == "__main__":
    support.main()
