// SPDX-License-Identifier: MIT
// Runs an ONNX model in stages with OpenVINO. Microbatches stream through the stages. OpenVINO optimises each
// stage by itself, so results may differ from those of the whole model in the last bits. The stages run on
// four threads, or in processes: mpirun -n 4 onnx_infer_openvino mpi
#include <cleave/openvino.hpp>

#include "compare_with_whole.hpp"

int main(int count, char** words) {
  return example::run_example<cleave::openvino::network>(count, words, 1e-5);
}
