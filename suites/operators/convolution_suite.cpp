#include "fixtures/suite.h"

int main(int argc, char** argv) {
  return assay::runSuite(argc, argv, assay::operatorSuite("convolution"));
}
