// tests/fuzz/run_files.cpp: runs a fuzz target on the files that are named, without libFuzzer.
#include <fstream>
#include <iterator>

#include "input.hpp"

int main(int count, char** names) {
  for (int i = 1; i < count; ++i) {
    std::ifstream file(names[i], std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    if (!file.eof() && file.fail()) {
      std::fprintf(stderr, "%s cannot be read\n", names[i]);
      return 2;
    }
    std::fprintf(stderr, "running %s\n", names[i]);
    const std::vector<uint8_t> exact(bytes.begin(), bytes.end());  // its end is guarded
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
  }
  return 0;
}
