"""A C program finds the library by pkg-config, and by CMake, in a folder that was moved."""

import shlex
import shutil
import subprocess

import pytest

import wend as torch
from wend import nn

PROGRAM = """
#include <stdio.h>
#include "small.h"
int main(int count, char **words)
{
    float numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    small_t *model = small_new(words[count - 1]);
    if (!model) return puts(small_error()), 1;
    small_tensor x = {.data = numbers, .dtype = SMALL_FLOAT32, .ndim = 2, .shape = {2, 4}}, y = {0};
    if (small_run(model, &x, 1, &y, 1)) return puts(small_error()), 1;
    for (int k = 0; k < 4; k++) printf("%.6f\\n", ((float *)y.data)[k]);
    small_release(&y);
    small_free(model);
    return 0;
}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.15)
project(program C)
find_package(PkgConfig REQUIRED)
pkg_check_modules(SMALL REQUIRED IMPORTED_TARGET small)
add_executable(program program.c)
target_link_libraries(program PRIVATE PkgConfig::SMALL)
"""
needs = pytest.mark.skipif(not shutil.which("pkg-config"), reason="finds the library for compilers")


def run(*words, **options):
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, check=False, timeout=120, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def moved(tmp_path):
    """(model, folder of the library, environment that pkg-config needs)."""
    model = nn.Linear(4, 2)
    made = torch.aot.compile(model, torch.randn(3, 4), directory=tmp_path / "built", name="small")
    assert made.library.name == "libsmall.so" and made.package.name == "small.pc"
    folder = (tmp_path / "built").rename(tmp_path / "a place")
    (tmp_path / "program.c").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    return model, folder, {"PATH": "/usr/bin:/bin", "PKG_CONFIG_PATH": str(folder)}


def check(model, text):
    numbers = torch.tensor([float(line) for line in text.split()]).reshape(2, 2)
    expected = model(torch.arange(1.0, 9.0).reshape(2, 4))
    assert torch.allclose(numbers, expected, atol=1e-5)


@needs
def test_pkg_config_finds_the_library(moved, tmp_path):
    model, folder, environment = moved
    flags = run("pkg-config", "--cflags", "--libs", "small", env=environment)
    program = tmp_path / "program"
    run("cc", tmp_path / "program.c", *shlex.split(flags), f"-Wl,-rpath,{folder}", "-o", program)
    check(model, run(program, folder / "small.safetensors"))


@needs
@pytest.mark.skipif(not shutil.which("cmake"), reason="builds the program")
def test_cmake_finds_the_library(moved, tmp_path):
    model, folder, environment = moved
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", env=environment)
    run("cmake", "--build", tmp_path / "build", env=environment)
    check(model, run(tmp_path / "build" / "program", folder / "small.safetensors"))
