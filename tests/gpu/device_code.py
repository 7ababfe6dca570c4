#!/usr/bin/env python3
"""What nvcc makes of the kernels: whether every floating-point instruction is exactly rounded, and what each kernel takes.

  device_code.py ptx   --nvcc NVCC --work FOLDER               all CUDA sources into FOLDER/kernels.ptx, its instructions checked
  device_code.py sass  --nvcc NVCC --work FOLDER --arch sm_90  that PTX assembled for one processor, its kernels checked
  device_code.py table --nvcc NVCC --work FOLDER               both for all processors; writes resources.tsv

A kernel must not spill more than a few registers, must fit its processor, and must take what resources.tsv says, where that is
of the same nvcc.
"""
import argparse
import collections
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("resources.tsv")
ARCHITECTURES = ("sm_80", "sm_90", "sm_90a", "sm_100", "sm_120")
EXACT = ("--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
REGISTERS = 65536  # of a multiprocessor: what one block of threads may have
SHARED_BYTES = 48 << 10
SPILLED_BYTES = 32  # stores and loads

Kernel = collections.namedtuple("Kernel", "name registers shared stack spilled")


class Wrong(Exception):
    """The kernels are not as they must be."""


def check_instructions(ptx):
    """Counts of the floating-point instructions of a PTX text; Wrong when one may approximate, flush, or be fused."""
    for pattern in (r"\S*\.(?:approx|ftz|full)\b\S*", r"\b(?:atom|red)\.\S*\.f(?:16|32|64)\S*"):
        found = re.search(pattern, ptx)
        if found:
            raise Wrong(f"{found[0]}: no approximation, no flush, no atomic sum may be in the kernels")
    # An operation that names its rounding is never contracted with another.
    arithmetic = re.findall(r"\b(?:add|sub|mul|div|fma|mad|sqrt|rcp|rsqrt|ex2|lg2|sin|cos|tanh)(?:\.[a-z0-9]+)*\.f(?:16|32|64)\S*", ptx)
    counts = collections.Counter(arithmetic)
    for instruction in counts:
        if not re.fullmatch(r"(add|sub|mul|div|fma|sqrt)\.rn\.f(32|64)", instruction):
            raise Wrong(f"{instruction} is not exactly rounded")
    for needed in ("fma.rn.f32", "add.rn.f32", "div.rn.f32", "sqrt.rn.f32", "fma.rn.f64"):
        if not counts[needed]:
            raise Wrong(f"no {needed} was found: this check reads nothing")
    return counts


def short_name(demangled):
    """`decode_kernel<Dtype 1, 4>`: without name spaces, whose hashes depend on the folder, and parameters."""
    name = re.sub(r"\(anonymous namespace\)::|_GLOBAL__N__\w+::|\bverbatim::kernels::(cuda::)?", "", demangled)
    name = re.sub(r"^void ", "", name)
    depth, end = 0, len(name)
    for i, c in enumerate(name):
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0:
            end = i
            break
    name = re.sub(r"\(Dtype\)", "Dtype ", name[:end])
    return re.sub(r"\((?:bool|unsigned int)\)|(?<=\d)u\b", "", name).strip()


def parse_usage(text, demangle):
    """Kernels of what `ptxas -v` prints."""
    kernels = []
    pattern = re.compile(r"Compiling entry function '(\S+)' for '\S+'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
                         r"(\d+) bytes spill loads.*?Used (\d+) registers([^\n]*)", re.S)
    for name, stack, stores, loads, registers, rest in pattern.findall(text):
        shared = re.search(r"(\d+) bytes smem", rest)
        kernels.append(Kernel(short_name(demangle(name)), int(registers), int(shared[1]) if shared else 0, int(stack),
                              int(stores) + int(loads)))
    return sorted(kernels)


def check_kernels(kernels, threads):
    for kernel in kernels:
        if kernel.spilled > SPILLED_BYTES:
            raise Wrong(f"{kernel.name} spills {kernel.spilled} bytes")
        if kernel.registers * threads > REGISTERS:
            raise Wrong(f"{kernel.name} takes {kernel.registers} registers for each of {threads} threads")
        if kernel.shared > SHARED_BYTES:
            raise Wrong(f"{kernel.name} takes {kernel.shared} bytes of shared memory")


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise Wrong(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def version_of(nvcc):
    return re.search(r"release \S+ (V\S+)", run([nvcc, "--version"]))[1]


def demangle(name):
    return run(["c++filt", name]).strip()


def make_ptx(nvcc, work):
    """One translation unit: the compiler starts once."""
    work.mkdir(parents=True, exist_ok=True)
    sources = sorted(SOURCE.glob("kernels/*/*_cuda.cu"))
    if not sources:
        raise Wrong(f"no CUDA source under {SOURCE}")
    unit = work / "kernels.cu"
    unit.write_text("".join(f'#include "{source.relative_to(SOURCE)}"\n' for source in sources))
    run([nvcc, "-std=c++20", "-ptx", "-arch=compute_80", *EXACT, f"-I{SOURCE}", unit, "-o", work / "kernels.ptx"])
    return (work / "kernels.ptx").read_text()


def assemble(nvcc, work, arch):
    ptxas = Path(nvcc).with_name("ptxas")
    return parse_usage(run([ptxas, "-v", f"-arch={arch}", work / "kernels.ptx", "-o", work / f"{arch}.cubin"]), demangle)


def read_table(text):
    """(version, {arch: [Kernel]})"""
    lines = text.splitlines()
    table = collections.defaultdict(list)
    for line in lines[2:]:
        arch, name, *numbers = line.split("\t")
        table[arch].append(Kernel(name, *map(int, numbers)))
    return lines[0].split()[-1], table


def table_text(version, table):
    lines = [f"# made by `tests/gpu/device_code.py table` with nvcc {version}",
             "architecture\tkernel\tregisters\tshared_bytes\tstack_bytes\tspilled_bytes"]
    for arch, kernels in table.items():
        lines += ["\t".join([arch, *map(str, kernel)]) for kernel in kernels]
    return "\n".join(lines) + "\n"


def compare(arch, kernels, version, table):
    """What a reader is told; Wrong when the same compiler made something else."""
    of, expected = read_table(table)
    if of != version:
        return f"resources.tsv is of nvcc {of}, this is {version}: not compared"
    if kernels != sorted(expected[arch]):
        changed = sorted(set(kernels) ^ set(expected[arch]))
        raise Wrong("kernels take other resources than resources.tsv says; if that is meant, run `device_code.py table`:\n" +
                    "\n".join(f"  {'now' if k in kernels else 'was'}  {k}" for k in changed))
    return "as in resources.tsv"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ptx", "sass", "table"))
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--arch", choices=ARCHITECTURES)
    options = parser.parse_args()
    if not options.nvcc or options.nvcc.endswith("NOTFOUND"):
        print("SKIPPED: no nvcc: what it makes of the kernels was not looked at")
        sys.exit(77)
    try:
        if options.what in ("ptx", "table"):
            for instruction, count in sorted(check_instructions(make_ptx(options.nvcc, options.work)).items()):
                print(f"{count:6} {instruction}")
        table = {}
        for arch in ARCHITECTURES if options.what == "table" else filter(None, [options.arch]):
            table[arch] = assemble(options.nvcc, options.work, arch)
            for kernel in table[arch]:
                print(f"{arch}  {kernel.registers:3} registers {kernel.shared:5} B shared {kernel.stack:4} B stack "
                      f"{kernel.spilled} B spilled  {kernel.name}")
            if not table[arch]:
                raise Wrong(f"ptxas named no kernel for {arch}")
            check_kernels(table[arch], threads=256)
        if options.what == "table":
            TABLE.write_text(table_text(version_of(options.nvcc), table))
        elif options.what == "sass":
            print(compare(options.arch, table[options.arch], version_of(options.nvcc), TABLE.read_text()))
    except Wrong as wrong:
        sys.exit(str(wrong))


if __name__ == "__main__":
    main()
