# Script mode: cmake -DSOURCE=… -DOUTPUT=… -DVERSION=… -P Version.cmake. Writes version.cpp, touching it only where it changed.
# The commit comes from git; without git (a source archive), and where files had changed, a hash of the C++ sources, known defects and
# goldens' index tells versions apart.
find_program(GIT git)
set(commit "")
if(GIT AND EXISTS "${SOURCE}/.git")
  execute_process(COMMAND "${GIT}" -C "${SOURCE}" describe --always --dirty --match "v*"
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(commit STREQUAL "" OR commit MATCHES "-dirty$")
  file(GLOB_RECURSE files RELATIVE "${SOURCE}" "${SOURCE}/fixtures/*.cpp" "${SOURCE}/fixtures/*.h" "${SOURCE}/suites/*.cpp*"
       "${SOURCE}/tools/*.cpp" "${SOURCE}/tools/*.h" "${SOURCE}/golden/index.json"
       "${SOURCE}/suites/known_defects.json")
  list(SORT files)
  set(hashes "")
  foreach(file IN LISTS files)
    file(SHA256 "${SOURCE}/${file}" hash)
    string(APPEND hashes "${file} ${hash}\n")
  endforeach()
  string(SHA256 hash "${hashes}")
  string(SUBSTRING "${hash}" 0 12 hash)
endif()
if(commit STREQUAL "")
  set(commit "src.${hash}")
elseif(NOT commit MATCHES "^v")
  set(commit "g${commit}")
endif()
if(commit MATCHES "-dirty$")
  string(APPEND commit ".${hash}")
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT [[#include "fixtures/core/version.h"

namespace assay {

std::string assayVersion() { return "@VERSION@+@commit@"; }

}  // namespace assay
]])
