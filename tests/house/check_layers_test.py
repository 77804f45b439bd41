"""The layer check must find what it is there for: includes upwards, sideways and out of the public face."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_layers  # noqa: E402


class LayerCheck(unittest.TestCase):
    def faults(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return [str(path.relative_to(root)) for path, _, _ in check_layers.faults(root)]

    def test_downward_and_system_includes_pass(self):
        self.assertEqual([], self.faults({
            "src/engine/a.cpp": '#include <vector>\n#include "backend/b.hpp"\n#include "lily/engine.hpp"\n',
            "src/cli/c.cpp": '#include "cli/d.hpp"\n#include "serve/server.hpp"\n',
            "include/lily/engine.hpp": '#include "lily/error.hpp"\n'}))

    def test_upward_include_is_found(self):
        self.assertEqual(["src/base/a.hpp"], self.faults({"src/base/a.hpp": '#include "engine/b.hpp"\n'}))

    def test_client_below_the_public_face_is_found(self):
        self.assertEqual(["src/cli/a.cpp"], self.faults({"src/cli/a.cpp": '  #  include "text/tokenizer.hpp"\n'}))

    def test_public_header_with_inner_include_is_found(self):
        self.assertEqual(["include/lily/a.hpp"],
                         self.faults({"include/lily/a.hpp": '#include "model/dimensions.hpp"\n'}))

    def test_unknown_folder_is_found(self):
        self.assertEqual(["src/misc/a.cpp"], self.faults({"src/misc/a.cpp": "int a;\n"}))


if __name__ == "__main__":
    unittest.main()
