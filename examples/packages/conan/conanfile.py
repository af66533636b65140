"""Packages the headers: conan create examples/packages/conan"""
import os

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, load

SOURCES = os.path.join("..", "..", "..")  # of the recipe's folder: the root of the project


class CleaveConan(ConanFile):
    name = "cleave"
    package_type = "header-library"
    license = "MIT"
    description = "Partitions computation graphs, splits them into stages and runs them as a pipeline"
    topics = ("graph-partitioning", "pipeline-parallelism", "header-only")
    settings = "os", "arch", "compiler", "build_type"
    no_copy_source = True

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, SOURCES, "include", "cleave", "version.hpp"))
        self.version = text.split('#define CLEAVE_VERSION "')[1].split('"')[0]

    def export_sources(self):
        root = os.path.join(self.recipe_folder, SOURCES)
        copy(self, "LICENSE", root, self.export_sources_folder)
        copy(self, "include/*", root, self.export_sources_folder)

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        self.info.clear()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        copy(self, "*", os.path.join(self.source_folder, "include"), os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_target_name", "cleave::cleave")
        self.cpp_info.set_property("pkg_config_name", "cleave")
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
