"""Installs Weft's build into a temporary folder, and uses what is there as its users do: by find_package, by pkg-config,
from C and C++, shared and static, moved to another place. Nothing of the source tree but the examples is used.

usage: install_test.py --build FOLDER --cxx COMPILER --cc COMPILER"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
SECONDS = 200  # bound of each command
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
CXX = ["-std=c++20", "-x", "c++"]
C = ["-std=c11", "-x", "c"]
OPTIONS = argparse.Namespace()


def run(*command, **more):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=SECONDS, check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def symbols(*command):
    """(name, version) of each line of nm's output."""
    names = [line.split()[-1] for line in run(*command).splitlines() if len(line.split()) >= 3]
    return [tuple((re.split("@+", name) + [""])[:2]) for name in names]


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = Path(tempfile.mkdtemp(prefix="weft-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        first = cls.scratch / "installed here"
        for component in ("runtime", "dev"):
            run("cmake", "--install", OPTIONS.build, "--prefix", first, "--component", component)
        cls.prefix = cls.scratch / "moved"  # nothing in it may know where it was installed
        first.rename(cls.prefix)
        (cls.lib,) = {path.parent for path in cls.prefix.rglob("libweft.a")}
        cls.weft = cls.prefix / "bin" / "weft"
        cls.environment = dict(os.environ, LD_LIBRARY_PATH=str(cls.lib), PKG_CONFIG_PATH=str(cls.lib / "pkgconfig"),
                               CC=OPTIONS.cc, CXX=OPTIONS.cxx)

    def folder(self, name):
        made = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.scratch))
        return made

    def ranks(self, program, environment=None):
        """What the program prints as four ranks."""
        return run(self.weft, "run", "-n", 4, "--", program, env=environment or self.environment)

    def configured(self, example, *settings):
        build = self.folder(example)
        run("cmake", "-S", EXAMPLES / example, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DCMAKE_CXX_COMPILER={OPTIONS.cxx}", f"-DCMAKE_C_COMPILER={OPTIONS.cc}", *settings)
        run("cmake", "--build", build)
        return build

    def test_find_package_gives_the_shared_library(self):
        build = self.configured("consumer-cmake")
        self.assertIn("libweft.so.0", run("readelf", "-d", build / "average"))
        self.assertEqual(self.ranks(build / "average").count("of 4: 1.500000"), 4)

    def test_find_package_gives_the_static_library_where_asked(self):
        build = self.configured("consumer-cmake", "-DBUILD_SHARED_LIBS=OFF")
        self.assertNotIn("libweft", run("readelf", "-d", build / "average"))
        without_library = {key: value for key, value in self.environment.items() if key != "LD_LIBRARY_PATH"}
        self.assertEqual(self.ranks(build / "average", without_library).count("of 4: 1.500000"), 4)

    def test_pkg_config(self):
        copy = self.folder("pkg-config") / "here"
        shutil.copytree(EXAMPLES / "consumer-pkg-config", copy)
        run("make", "-C", copy, env=self.environment)
        self.assertEqual(sorted(self.ranks(copy / "allreduce").split("\n"))[-1].split(": ")[1], "10")

    def test_c_by_cmake_and_by_pkg_config(self):
        copy = self.folder("c") / "here"
        shutil.copytree(EXAMPLES / "consumer-c", copy)
        run("make", "-C", copy, env=self.environment)
        programs = [path for path in copy.iterdir() if os.access(path, os.X_OK) and path.is_file()]
        self.assertEqual(len(programs), 1)
        by_make = sorted(self.ranks(programs[0]).splitlines())
        build = self.configured("consumer-c")
        self.assertEqual(len(by_make), 4)
        self.assertEqual(sorted(self.ranks(build / programs[0].name).splitlines()), by_make)

    def test_every_header_compiles_alone_without_a_warning(self):
        include = self.prefix / "include"
        headers = [path.relative_to(include) for path in sorted(include.rglob("*.h"))]
        of_c = [header for header in headers if "c" in header.parts or header.name in ("c.h", "weft.h")]
        self.assertGreater(len(headers), 20)
        self.assertGreater(len(of_c), 5)
        for language, compilers, which in ((CXX, [OPTIONS.cxx, "clang++-16"], headers), (C, [OPTIONS.cc, "clang-16"], of_c)):
            for compiler in filter(shutil.which, compilers):
                for header in which:
                    with self.subTest(compiler=compiler, header=str(header)):
                        run(compiler, *STRICT, *language, "-I", include, "-", input=f"#include <{header}>\n#include <{header}>\n")

    def test_headers_name_nothing_of_the_inside(self):
        for path in (self.prefix / "include").rglob("*.h"):
            for name in re.findall(r'#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(encoding="utf-8")):
                with self.subTest(header=path.name, includes=name):
                    self.assertTrue(name.startswith("weft/") or "/" not in name, "neither of Weft's surface nor standard")
                    if name.startswith("weft/"):
                        self.assertTrue((self.prefix / "include" / name).is_file())

    def test_the_shared_library_shows_what_the_map_names(self):
        shown = symbols("nm", "-D", "--defined-only", self.lib / "libweft.so")
        kept = re.findall(r"^    ([\w$.]+);$", (ROOT / "cmake" / "exports.map").read_text(encoding="utf-8"), re.MULTILINE)
        self.assertEqual(sorted(name for name, version in shown if not name.startswith("WEFT_")), sorted(kept))
        self.assertTrue(all(version.startswith("WEFT_") for name, version in shown if not name.startswith("WEFT_")))
        self.assertIn("libweft.so.0", run("readelf", "-d", self.lib / "libweft.so"))

    def test_the_map_names_what_the_headers_declare(self):
        self.assertEqual(run(sys.executable, "-B", ROOT / "tools" / "exports", OPTIONS.build, "--check"), "")

    def test_the_static_library_shows_the_same_names(self):
        shown = {name for name, _ in symbols("nm", "-g", "--defined-only", self.lib / "libweft.a")}
        kept = re.findall(r"^    ([\w$.]+);$", (ROOT / "cmake" / "exports.map").read_text(encoding="utf-8"), re.MULTILINE)
        self.assertEqual(set(kept) - shown, set())
        foreign = {name for name in shown if not re.match(r"weft_|_ZNK?4weft", name)}
        self.assertEqual(foreign, set())

    def test_the_libraries_need_the_systems_own_only(self):
        system = re.compile(r"lib(c|m|stdc\+\+|gcc_s|pthread|dl)\.so|ld-linux")
        for binary in (self.lib / "libweft.so", self.weft):
            needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", binary))
            self.assertEqual([name for name in needed if not system.match(name)], [], binary.name)

    def test_a_library_that_is_only_loaded_does_nothing(self):
        """No thread, no signal handler, no descriptor, no output; and it stays loaded."""
        program = self.folder("load") / "load"
        source = program.with_suffix(".c")
        source.write_text(LOAD, encoding="utf-8")
        run(OPTIONS.cc, source, "-o", program, "-ldl")
        self.assertEqual(run(program, self.lib / "libweft.so"), "quiet\n")

    def test_two_copies_in_one_process_do_not_meet(self):
        """The program contains one copy and loads another. Each runs a job of its own on two threads."""
        program = self.folder("copies") / "copies"
        source = program.with_suffix(".c")
        source.write_text(COPIES, encoding="utf-8")
        run(OPTIONS.cc, "-std=c11", "-D_GNU_SOURCE", "-I", self.prefix / "include", source, self.lib / "libweft.a", "-o", program,
            "-lstdc++", "-lm", "-lpthread", "-ldl")
        self.assertEqual(run(program, self.lib / "libweft.so"), "1.5 1.5\n")

    @unittest.skipIf(os.geteuid() != 0 or not shutil.which("unshare"), "needs root, to hide libraries from one process")
    def test_a_machine_without_the_optional_libraries(self):
        """Ranks run over shared memory, and `weft devices` says what to install."""
        build = self.configured("consumer-cmake")
        loader = run("ldconfig", "-p")
        hidden = re.findall(r"=> (\S*lib(?:hwloc|ibverbs|ucp|ucs|pmix)\.so\.\d+)", loader)
        script = "".join(f"mount --bind /dev/null $(realpath {path})\n" for path in hidden)
        inside = self.folder("bare") / "inside.sh"
        inside.write_text(f"set -e\n{script}\n\"$@\"\n", encoding="utf-8")
        bare = ("unshare", "--mount", "sh", inside, self.weft)
        self.assertEqual(run(*bare, "run", "-n", 4, "--", build / "average", env=self.environment).count("1.500000"), 4)
        devices = run(*bare, "devices")
        for package in ("libibverbs1", "libucx0", "libhwloc15", "libpmix2"):
            self.assertIn(f"install {package}", devices)

    @unittest.skipUnless(shutil.which("cpack") and shutil.which("dpkg-deb"), "needs cpack and dpkg")
    def test_debian_packages(self):
        """Both unpacked into one folder are an installed Weft; they need libc and libstdc++ only."""
        made = self.folder("packages")
        run("cpack", "-G", "DEB", "-B", made, cwd=OPTIONS.build)
        packages = sorted(made.glob("*.deb"))
        self.assertEqual([path.name.split("_")[0] for path in packages], ["libweft-dev", "libweft0"])
        for package in packages:
            run("dpkg-deb", "--extract", package, made / "root")
        needs = run("dpkg-deb", "--field", packages[1], "Depends")
        self.assertEqual({need.split()[0] for need in needs.split(",")}, {"libc6", "libgcc-s1", "libstdc++6"})
        (version,) = re.findall(r"project\(weft VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
        self.assertEqual(run("dpkg-deb", "--field", packages[0], "Depends").strip(), f"libweft0 (= {version})")
        self.assertEqual(run(made / "root" / "usr" / "bin" / "weft", "--version").split(), ["weft", version])
        run("cmake", "-S", EXAMPLES / "consumer-cmake", "-B", made / "build", f"-DCMAKE_PREFIX_PATH={made}/root/usr",
            f"-DCMAKE_CXX_COMPILER={OPTIONS.cxx}")
        run("cmake", "--build", made / "build")

    def test_version(self):
        (version,) = re.findall(r"project\(weft VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
        self.assertEqual(run(self.weft, "--version").split(), ["weft", version])
        self.assertEqual(run("pkg-config", "--modversion", "weft", env=self.environment).strip(), version)
        changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        self.assertIn(f"## {version}", changes)


LOAD = r"""
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>

static int entries(const char* folder) {
  int count = 0;
  DIR* opened = opendir(folder);
  while (opened != NULL && readdir(opened) != NULL) ++count;
  if (opened != NULL) closedir(opened);
  return count;
}

static int handlers(void) {
  int count = 0;
  for (int signal = 1; signal < 32; ++signal) {
    struct sigaction action;
    if (sigaction(signal, NULL, &action) == 0 && action.sa_handler != SIG_DFL) ++count;
  }
  return count;
}

int main(int count, char** arguments) {
  const int threads = entries("/proc/self/task"), files = entries("/proc/self/fd"), before = handlers();
  void* library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL) return puts(dlerror()), 1;
  if (entries("/proc/self/task") != threads) puts("a thread");
  if (entries("/proc/self/fd") != files) puts("a descriptor");
  if (handlers() != before) puts("a signal handler");
  dlclose(library);
  if (dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) == NULL) puts("unloaded");
  return puts("quiet"), 0;
}
"""

COPIES = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <weft/c.h>

// What is called of one copy.
struct copy {
  __typeof__(&weft_config_new) config;
  __typeof__(&weft_store_make_local) stores;
  __typeof__(&weft_context_create) create;
  __typeof__(&weft_allreduce) allreduce;
  __typeof__(&weft_context_free) free;
  weft_store* store[2];
};
struct rank {
  struct copy* copy;
  int number;
  float mean;
};

static void* work(void* argument) {
  struct rank* rank = argument;
  weft_config* config = NULL;
  weft_context* context = NULL;
  float x = (float)rank->number + 1;
  rank->copy->config(&config);
  if (rank->copy->create(config, rank->copy->store[rank->number], &context) == WEFT_OK &&
      rank->copy->allreduce(context, &x, &x, 1, WEFT_F32, WEFT_AVERAGE) == WEFT_OK) {
    rank->mean = x;
  }
  rank->copy->free(context);
  return NULL;
}

int main(int count, char** arguments) {
  void* library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL) return puts(dlerror()), 1;
  struct copy copies[2] = {{weft_config_new, weft_store_make_local, weft_context_create, weft_allreduce, weft_context_free, {0}}};
  *(void**)&copies[1].config = dlsym(library, "weft_config_new");
  *(void**)&copies[1].stores = dlsym(library, "weft_store_make_local");
  *(void**)&copies[1].create = dlsym(library, "weft_context_create");
  *(void**)&copies[1].allreduce = dlsym(library, "weft_allreduce");
  *(void**)&copies[1].free = dlsym(library, "weft_context_free");
  if (copies[0].create == copies[1].create) return puts("one copy"), 1;
  struct rank ranks[4];
  pthread_t threads[4];
  for (int i = 0; i < 2; ++i) {
    if (copies[i].stores(2, copies[i].store) != WEFT_OK) return puts("stores"), 1;
  }
  for (int i = 0; i < 4; ++i) {
    ranks[i] = (struct rank){&copies[i / 2], i % 2, 0};
    pthread_create(&threads[i], NULL, work, &ranks[i]);
  }
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  return printf("%g %g\n", ranks[0].mean, ranks[2].mean), 0;
}
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--cc", required=True)
    OPTIONS, rest = parser.parse_known_args(namespace=OPTIONS)
    unittest.main(argv=[sys.argv[0], *rest])
