// SPDX-License-Identifier: MIT
// Runs an ONNX model in stages with OpenCV. Microbatches stream through the stages, and the results equal
// those of the whole model in every bit. The stages run on four threads, or in processes:
// mpirun -n 4 onnx_infer mpi
#include <cleave/opencv.hpp>
#include <opencv2/core.hpp>

#include "compare_with_whole.hpp"

int main(int count, char** words) {
  cv::setNumThreads(1);  // each rank is one thread
  return example::run_example<cleave::opencv::network>(count, words, 0);
}
