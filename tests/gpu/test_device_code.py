"""The check of the compiled kernels catches what it is for. Needs no nvcc."""
import unittest

import device_code
from device_code import Kernel, Wrong

GOOD = """
  fma.rn.f32 %f1, %f2, %f3, %f4;  add.rn.f32 %f1, %f2, %f3;  div.rn.f32 %f1, %f2, %f3;
  sqrt.rn.f32 %f1, %f2;  fma.rn.f64 %fd1, %fd2, %fd3, %fd4;  mul.rn.f64 %fd1, %fd2, %fd3;
  cvt.rn.f32.f64 %f1, %fd1;  setp.gt.f32 %p1, %f1, %f2;  neg.f32 %f1, %f2;  add.s32 %r1, %r2, %r3;
"""
USAGE = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN1kE' for 'sm_90'
ptxas info    : Function properties for _ZN1kE
    16 bytes stack frame, 20 bytes spill stores, 14 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 1.0 ms
ptxas info    : Compiling entry function '_ZN1jE' for 'sm_90'
ptxas info    : Function properties for _ZN1jE
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 360 bytes cmem[0]
"""


class DeviceCodeTest(unittest.TestCase):
    def test_exactly_rounded_instructions_pass_and_are_counted(self):
        counts = device_code.check_instructions(GOOD)
        self.assertEqual(counts["fma.rn.f32"], 1)
        self.assertEqual(sum(counts.values()), 6)

    def test_every_other_kind_is_refused(self):
        for line in ("ex2.approx.f32 %f1, %f2;", "ex2.approx.ftz.f32 %f1, %f2;", "div.full.f32 %f1, %f2, %f3;",
                     "add.ftz.f32 %f1, %f2, %f3;", "add.rn.ftz.f32 %f1, %f2, %f3;", "mul.f32 %f1, %f2, %f3;",
                     "mad.f32 %f1, %f2, %f3, %f4;", "fma.rz.f32 %f1, %f2, %f3, %f4;", "add.rn.sat.f32 %f1, %f2, %f3;",
                     "sqrt.approx.f32 %f1, %f2;", "rcp.rn.f32 %f1, %f2;", "tanh.approx.f32 %f1, %f2;",
                     "atom.global.add.f32 %f1, [%rd1], %f2;", "red.global.add.f32 [%rd1], %f2;",
                     "cvt.ftz.f32.f16 %f1, %h1;", "fma.rn.f16 %h1, %h2, %h3, %h4;"):
            with self.assertRaises(Wrong, msg=line):
                device_code.check_instructions(GOOD + line)

    def test_a_text_without_arithmetic_is_refused(self):
        with self.assertRaises(Wrong):
            device_code.check_instructions("add.s32 %r1, %r2, %r3;")

    def test_names_hold_neither_name_spaces_nor_parameters(self):
        for demangled, name in (
                ("verbatim::kernels::cuda::_GLOBAL__N__1a2b_10_kernels_cu_0011::rmsnorm_kernel(verbatim::kernels::cuda::RmsnormArgs)",
                 "rmsnorm_kernel"),
                ("void verbatim::kernels::cuda::(anonymous namespace)::decode_kernel<(verbatim::kernels::Dtype)1, 4u>"
                 "(verbatim::kernels::cuda::(anonymous namespace)::Args)", "decode_kernel<Dtype 1, 4>"),
                ("void verbatim::kernels::cuda::for_each_kernel<verbatim::kernels::cuda::(anonymous namespace)::Gate<(bool)1> >"
                 "(unsigned long, x)", "for_each_kernel<Gate<1> >")):
            self.assertEqual(device_code.short_name(demangled), name)

    def test_usage_is_read_and_spills_are_refused(self):
        kernels = device_code.parse_usage(USAGE, lambda name: name[3:5])
        self.assertEqual(kernels, [Kernel("1j", 8, 0, 0, 0), Kernel("1k", 40, 1024, 16, 34)])
        with self.assertRaises(Wrong):
            device_code.check_kernels(kernels, 256)
        device_code.check_kernels(kernels[:1], 256)
        for kernel in (Kernel("x", 257, 0, 0, 0), Kernel("x", 8, 49153, 0, 0)):
            with self.assertRaises(Wrong):
                device_code.check_kernels([kernel], 256)

    def test_the_table_is_read_as_written_and_compared_only_with_its_own_compiler(self):
        kernels = [Kernel("a", 8, 0, 0, 0), Kernel("b<1, 2>", 40, 1024, 0, 0)]
        text = device_code.table_text("V13.0.88", {"sm_90": kernels})
        self.assertEqual(device_code.read_table(text), ("V13.0.88", {"sm_90": kernels}))
        self.assertEqual(device_code.compare("sm_90", kernels, "V13.0.88", text), "as in resources.tsv")
        other = [kernels[0], kernels[1]._replace(registers=41)]
        with self.assertRaises(Wrong):
            device_code.compare("sm_90", other, "V13.0.88", text)
        self.assertIn("not compared", device_code.compare("sm_90", other, "V13.1.0", text))


if __name__ == "__main__":
    unittest.main()
