# GoogleTest, nlohmann-json, CLI11 and OpenSSL's libcrypto: from the system or a prefix on CMAKE_PREFIX_PATH; the first three
# else downloaded, pinned by version and hash. ASSAY_OFFLINE forbids the download: GPU runners often reach nothing.
option(ASSAY_OFFLINE "never download a dependency" OFF)
include(FetchContent)

# assay_dependency(<find_package name> <target that proves it> <Debian package> <url> <sha256>)
function(assay_dependency name target package url hash)
  find_package(${name} QUIET GLOBAL)
  if(TARGET ${target})
    return()
  endif()
  if(ASSAY_OFFLINE)
    message(FATAL_ERROR "${name} is missing: install ${package}, or name its prefix with -DCMAKE_PREFIX_PATH=<folder>.")
  endif()
  message(STATUS "${name} is not installed (${package}): downloading it")
  FetchContent_Declare(${name} URL "${url}" URL_HASH SHA256=${hash} DOWNLOAD_EXTRACT_TIMESTAMP ON)
  FetchContent_MakeAvailable(${name})
  if(NOT TARGET ${target})
    message(FATAL_ERROR "${name} was downloaded but does not define ${target}: install ${package} instead.")
  endif()
endfunction()

set(INSTALL_GTEST OFF)
set(CLI11_BUILD_TESTS OFF)
assay_dependency(GTest GTest::gtest libgtest-dev
                 "https://github.com/google/googletest/archive/refs/tags/v1.14.0.tar.gz"
                 8ad598c73ad796e0d8280b082cebd82a630d73e73cd3c70057938a6501bba5d7)
assay_dependency(nlohmann_json nlohmann_json::nlohmann_json nlohmann-json3-dev
                 "https://github.com/nlohmann/json/releases/download/v3.11.3/json.tar.xz"
                 d6c65aca6b1ed68e7a182f4757257b107ae403032760ed6ef121c9d55e81757d)
assay_dependency(CLI11 CLI11::CLI11 libcli11-dev
                 "https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.4.2.tar.gz"
                 f2d893a65c3b1324c50d4e682c0cdc021dd0477ae2c048544f39eed6654b699a)

# The static library where there is one, so that the installed tree does not depend on the runner's OpenSSL.
set(OPENSSL_USE_STATIC_LIBS ON)
find_package(OpenSSL QUIET COMPONENTS Crypto)
if(NOT TARGET OpenSSL::Crypto)
  set(OPENSSL_USE_STATIC_LIBS OFF)
  find_package(OpenSSL QUIET COMPONENTS Crypto)
endif()
if(NOT TARGET OpenSSL::Crypto)
  message(FATAL_ERROR "OpenSSL's headers are missing (SHA-256 of goldens and outputs): install libssl-dev, or name a prefix "
                      "with -DCMAKE_PREFIX_PATH=<folder>.")
endif()
