// SPDX-License-Identifier: MIT
#include "cleave/formats/files/durable_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/child.hpp"
#include "support/error_text.hpp"
#include "support/project_files.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::error_text;

namespace {

std::span<std::byte const> as_bytes_of(std::string const& text) { return std::as_bytes(std::span(text)); }

std::size_t files_in(std::string const& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] auto const& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

}  // namespace

TEST_CASE("pending_file: a file gets its name when it is kept, and an abandoned file leaves nothing") {
  testing::scratch_folder const folder;
  {
    pending_file abandoned(folder.path(), "a");
    abandoned.write(0, as_bytes_of("lost"));
    CHECK(files_in(folder.path()) == 1);
  }
  CHECK(files_in(folder.path()) == 0);
  for (std::string const text : {"first", "second"}) {
    pending_file kept(folder.path(), "a");
    kept.write(1, as_bytes_of(text.substr(1)));
    kept.write(0, as_bytes_of(text.substr(0, 1)));
    kept.keep("a");
    CHECK(project::text_of(folder / "a") == text);
  }
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("pending_file: does not touch files at its temporary names and follows no link") {
  testing::scratch_folder const folder;
  auto const begun = folder / ("a." + process_space() + "." + std::to_string(getpid()) + "-");
  std::ofstream(begun + "0.unfinished") << "of a process that was killed";
  std::ofstream(folder / "victim") << "somebody's";
  std::filesystem::create_symlink(folder / "victim", begun + "1.unfinished");
  std::filesystem::create_symlink(folder / "missing", begun + "2.unfinished");
  {
    pending_file kept(folder.path(), "a");
    kept.write(0, as_bytes_of("new"));
    kept.keep("a");
  }
  CHECK(project::text_of(folder / "a") == "new");
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(folder / "a")));
  CHECK(project::text_of(begun + "0.unfinished") == "of a process that was killed");
  CHECK(project::text_of(folder / "victim") == "somebody's");
  CHECK(!std::filesystem::exists(folder / "missing"));
  CHECK(files_in(folder.path()) == 5);
}

TEST_CASE("stored_file: reads from any offset and returns the number of bytes read") {
  testing::scratch_folder const folder;
  std::ofstream(folder / "a") << "0123456789";
  stored_file const file(folder / "a");
  CHECK(file.size() == 10);
  std::string to(4, ' ');
  CHECK(file.read(3, std::as_writable_bytes(std::span(to))) == 4);
  CHECK(to == "3456");
  CHECK(file.read(8, std::as_writable_bytes(std::span(to))) == 2);
  CHECK(to == "8956");
  CHECK(file.read(10, std::as_writable_bytes(std::span(to))) == 0);
}

TEST_CASE("durable_file: errors of the system name the file") {
  testing::scratch_folder const folder;
  auto const missing = folder / "missing";
  CHECK(error_text<file_error>([&] { stored_file{missing}; }) ==
        "file '" + missing + "' cannot be opened: No such file or directory");
  CHECK(error_text<file_error>([&] { pending_file(missing, "a"); }) ==
        "file '" + missing + "/a' cannot be created: No such file or directory");
  CHECK(error_text<file_error>([&] { stored_file{folder.path()}; }) ==
        "file '" + folder.path() + "' cannot be read: it is not a regular file");
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);  // nobody writes to it
  CHECK(error_text<file_error>([&] { stored_file{folder / "fifo"}; }) ==
        "file '" + (folder / "fifo") + "' cannot be read: it is not a regular file");
  std::filesystem::create_directory(folder / "taken");
  pending_file file(folder.path(), "b");
  CHECK(error_text<file_error>([&] { file.keep("taken"); }) ==
        "file '" + (folder / "taken") + "' cannot be renamed into place: Is a directory");
}

TEST_CASE("durable_file: a full disk is reported and leaves no file") {
  testing::scratch_folder const folder;
  std::ofstream(folder / "b") << "old";
  auto const limited = testing::in_child([&] {
    rlimit const size{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &size);
    std::signal(SIGXFSZ, SIG_IGN);
    return error_text<file_error>([&] {
      pending_file file(folder.path(), "b");
      file.write(0, as_bytes_of(std::string(2000, 'x')));
    });
  });
  CHECK(limited.said == "file '" + (folder / "b") + "' cannot be written: File too large");
  CHECK(project::text_of(folder / "b") == "old");
  CHECK(files_in(folder.path()) == 1);
  cleave::file_handle const full("/dev/full", O_WRONLY, "opened");
  CHECK(error_text<file_error>([&] { full.write(as_bytes_of("more than nothing")); }) ==
        "file '/dev/full' cannot be written: No space left on device");
}

TEST_CASE("pending_files: all files get their names together, and stale files are removed then") {
  testing::scratch_folder const folder;
  for (auto const* old : {"a", "b", "c", "mine"}) std::ofstream(folder / old) << "old";
  {
    pending_files files(folder.path());
    for (auto const* name : {"a", "d"}) files.add(name, as_bytes_of("new"));
    CHECK(project::text_of(folder / "a") == "old");
    CHECK(!std::filesystem::exists(folder / "d"));
    files.keep({"a", "b", "c"});
  }
  CHECK(files_in(folder.path()) == 3);
  for (auto const* name : {"a", "d"}) CHECK(project::text_of(folder / name) == "new");
  CHECK(project::text_of(folder / "mine") == "old");
}

TEST_CASE("pending_file: keep_new gives a new name, and never replaces a file or a link") {
  testing::scratch_folder const folder;
  std::filesystem::create_symlink(folder / "missing", folder / "link");
  auto const keep_new = [&](std::string const& name, std::string const& text) {
    pending_file file(folder.path(), name);
    file.write(0, as_bytes_of(text));
    file.keep_new(name);
  };
  keep_new("a", "first");
  for (std::string const name : {"a", "link"})
    CHECK(error_text<file_error>([&] { keep_new(name, "second"); }) ==
          "file '" + (folder / name) + "' cannot be created: File exists");
  CHECK(project::text_of(folder / "a") == "first");
  CHECK(!std::filesystem::exists(folder / "missing"));
  CHECK(files_in(folder.path()) == 2);
}

TEST_CASE("pending_files: stopped between two names, there is no mixture of old and new files") {
  testing::scratch_folder const folder;
  std::vector<std::string> const names{"a", "b", "c"};
  for (auto const& name : names) std::ofstream(folder / name) << "old";
  {
    pending_files files(folder.path());
    for (auto const& name : names) files.add(name, as_bytes_of("new"));
    for (auto const& entry : std::filesystem::directory_iterator(folder.path()))
      if (entry.path().filename().string().starts_with("b.")) std::filesystem::remove(entry.path());
    CHECK(error_text<file_error>([&] { files.keep(names); }) ==
          "file '" + (folder / "b") + "' cannot be renamed into place: No such file or directory");
  }
  CHECK(files_in(folder.path()) == 1);
  CHECK(project::text_of(folder / "c") == "new");
}

TEST_CASE("pending_files: where a name cannot be given, the old files stay") {
  testing::scratch_folder const folder;
  std::ofstream(folder / "a") << "old";
  std::filesystem::create_directory(folder / "b");
  {
    pending_files files(folder.path());
    for (auto const* name : {"a", "b"}) files.add(name, as_bytes_of("new"));
    CHECK(error_text<file_error>([&] { files.keep({"a"}); }) ==
          "file '" + (folder / "b") + "' cannot be renamed into place: Is a directory");
  }
  CHECK(files_in(folder.path()) == 2);
  CHECK(project::text_of(folder / "a") == "old");
}

TEST_CASE("remove_leftovers: removes unfinished files of ended processes and nothing else") {
  testing::scratch_folder const folder;
  auto const killed = testing::in_child([&]() -> std::string {
    pending_file part(folder.path(), "a"), other(folder.path(), "b");
    part.write(0, as_bytes_of("half"));
    raise(SIGKILL);
    return "";
  });
  CHECK(killed.signal == SIGKILL);
  CHECK(files_in(folder.path()) == 2);
  std::string left;
  for (auto const& entry : std::filesystem::directory_iterator(folder.path())) left = entry.path().filename();
  auto const number = left.substr(left.rfind('.', left.rfind('.') - 1) + 1);  // 4711-0.unfinished
  std::vector<std::string> const others = {"a." + number,                     // without a process space
                                           "a.0123456789abcdef." + number,    // of another machine
                                           left + ".txt", "a.unfinished", "mine"};
  for (auto const& name : others) std::ofstream(folder / name) << "somebody's";
  std::filesystem::create_symlink(folder / "mine", folder / ("link." + left.substr(2)));
  pending_file const at_work(folder.path(), "c");
  remove_leftovers(folder.path());
  CHECK(files_in(folder.path()) == others.size() + 2);
  for (auto const& name : others) CHECK(project::text_of(folder / name) == "somebody's");
  CHECK(std::filesystem::is_symlink(folder / ("link." + left.substr(2))));
  remove_leftovers(folder / "missing");
}

TEST_CASE("sync_folder: accepts a file system that cannot sync folders and reports a missing folder") {
  sync_folder(open_folder("/proc"));
  testing::scratch_folder const folder;
  CHECK(error_text<file_error>([&] { sync_folder(open_folder(folder / "missing")); }) ==
        "file '" + (folder / "missing") + "' cannot be opened: No such file or directory");
}

TEST_CASE("stored_file: a moved handle reads the file of its source") {
  testing::scratch_folder const folder;
  std::ofstream(folder / "a") << "a";
  std::ofstream(folder / "b") << "bc";
  stored_file a(folder / "a");
  stored_file b(std::move(a));
  CHECK(b.size() == 1);
  b = stored_file(folder / "b");
  std::string to(2, ' ');
  CHECK(b.read(0, std::as_writable_bytes(std::span(to))) == 2);
  CHECK(to == "bc");
  CHECK(b.path() == folder / "b");
}
