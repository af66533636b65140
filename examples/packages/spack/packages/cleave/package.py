from spack.package import *


class Cleave(CMakePackage):
    """Partitions computation graphs, splits them into stages and runs them as a pipeline. Headers only."""

    license("MIT")

    version("0.2.0")  # of a checkout: spack dev-build cleave@0.2.0

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")

    conflicts("%gcc@:11", msg="cleave needs C++20 as g++ 12 has it")
    conflicts("%clang@:15", msg="cleave needs C++20 as clang 16 has it")

    def cmake_args(self):
        return [self.define("CLEAVE_PROGRAMS", False)]
