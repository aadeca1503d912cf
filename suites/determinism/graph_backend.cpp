#ifdef ASSAY_HAS_CUDNN
#include "suites/determinism/graph_backend.h"

#include <ATen/ATen.h>

#include <array>

namespace assay::determinism {
namespace {

// With cuDNN's sentence on what it did not like.
void check(cudnnStatus_t status, const std::string& what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 1024> told{};
  cudnnGetLastErrorString(told.data(), told.size());
  std::string sentence(told.data());
  for (char& letter : sentence)
    if (letter == '\n') letter = ' ';
  need(status, (sentence.empty() ? what : what + " (" + sentence + ")").c_str());
}

cudnnDataType_t dataTypeOf(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return CUDNN_DATA_FLOAT;
    case at::kDouble:
      return CUDNN_DATA_DOUBLE;
    case at::kHalf:
      return CUDNN_DATA_HALF;
    default:
      throw std::logic_error("no graph has tensors of this type");
  }
}

// In which the operations of a graph compute: float64 in itself, all else in float32.
cudnnDataType_t computeType(const GraphCase& graph) {
  return graph.dtype == at::kDouble ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

template <Note note, cudnnBackendNumericalNote_t theirs>
constexpr bool kSame = static_cast<int>(note) == static_cast<int>(theirs);
static_assert(kSame<Note::kTensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE>);
static_assert(kSame<Note::kDownConvertInputs, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS>);
static_assert(
    kSame<Note::kReducedPrecisionReduction, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION>);
static_assert(kSame<Note::kFft, CUDNN_NUMERICAL_NOTE_FFT>);
static_assert(kSame<Note::kNondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC>);
static_assert(kSame<Note::kWinograd, CUDNN_NUMERICAL_NOTE_WINOGRAD>);
static_assert(kSame<Note::kWinogradTile4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4>);
static_assert(kSame<Note::kWinogradTile6x6, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6>);
static_assert(kSame<Note::kWinogradTile13x13, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13>);
static_assert(kSame<Note::kStrictNanPropagation, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP>);

}  // namespace

// ---- descriptors

BackendDescriptor::BackendDescriptor(cudnnBackendDescriptorType_t type) : type_(type) {
  check(cudnnBackendCreateDescriptor(type, &value_),
        "cudnnBackendCreateDescriptor " + std::to_string(type));
}

BackendDescriptor::~BackendDescriptor() { cudnnBackendDestroyDescriptor(value_); }

void BackendDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            int64_t count, const void* values) {
  check(cudnnBackendSetAttribute(value_, name, type, count, values),
        "cudnnBackendSetAttribute " + std::to_string(name));
}

void BackendDescriptor::set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) {
  set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}

void BackendDescriptor::set(cudnnBackendAttributeName_t name, const BackendDescriptor& other) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.value_);
}

void BackendDescriptor::finalize() {
  check(cudnnBackendFinalize(value_),
        "cudnnBackendFinalize of descriptor " + std::to_string(type_));
}

int64_t BackendDescriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                               int64_t most, void* values) const {
  int64_t count = 0;
  check(cudnnBackendGetAttribute(value_, name, type, most, &count, values),
        "cudnnBackendGetAttribute " + std::to_string(name));
  return count;
}

GraphTarget::GraphTarget(const std::string& deviceProperties)
    : properties_(std::make_shared<BackendDescriptor>(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)) {
  properties_->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                   static_cast<int64_t>(deviceProperties.size()) + 1, deviceProperties.c_str());
  properties_->finalize();
}

// ---- the graph

OperationGraph::OperationGraph(GraphCase graph, GraphTarget target)
    : graph_(std::move(graph)), target_(std::move(target)) {
  for (const auto& step : graph_.steps) std::visit([this](const auto& s) { add(s); }, step);
  descriptor_ = std::make_unique<BackendDescriptor>(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (!target_.described())
    descriptor_->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle());
  descriptor_->set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                   static_cast<int64_t>(operations_.size()), operations_.data());
  descriptor_->finalize();
}

int64_t OperationGraph::engines() const {
  int64_t count = 0;
  descriptor_->get(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, 1, &count);
  return count;
}

int64_t OperationGraph::id(const std::string& tensor) const {
  for (size_t k = 0; k < graph_.tensors.size(); ++k)
    if (graph_.tensors[k].name == tensor) return static_cast<int64_t>(k) + 1;
  throw std::logic_error("the graph has no tensor " + tensor);
}

BackendDescriptor& OperationGraph::keep(cudnnBackendDescriptorType_t type) {
  kept_.push_back(std::make_unique<BackendDescriptor>(type));
  return *kept_.back();
}

const BackendDescriptor& OperationGraph::tensor(const std::string& name) {
  const auto known = tensors_.find(name);
  if (known != tensors_.end()) return *known->second;
  const auto& one = graph_.tensor(name);
  auto& made = keep(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id(name));
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, dataTypeOf(one.dtype));
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{16});
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, one.sizes);
  made.set(CUDNN_ATTR_TENSOR_STRIDES, one.strides());
  if (one.use == Use::kVirtual) made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
  if (one.use == Use::kScalar) made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
  made.finalize();
  tensors_[name] = &made;
  return made;
}

void OperationGraph::give(BackendDescriptor& to, cudnnBackendAttributeName_t attribute,
                          const std::string& name) {
  if (!name.empty()) to.set(attribute, tensor(name));
}

namespace {

struct ConvolutionNames {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
};

ConvolutionNames namesOf(ConvolutionStep::Direction direction) {
  switch (direction) {
    case ConvolutionStep::Direction::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvolutionStep::Direction::kBackwardData:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvolutionStep::Direction::kBackwardFilter:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

cudnnPointwiseMode_t modeOf(PointwiseStep::Mode mode) {
  switch (mode) {
    case PointwiseStep::Mode::kAdd:
      return CUDNN_POINTWISE_ADD;
    case PointwiseStep::Mode::kSubtract:
      return CUDNN_POINTWISE_SUB;
    case PointwiseStep::Mode::kMultiply:
      return CUDNN_POINTWISE_MUL;
    case PointwiseStep::Mode::kDivide:
      return CUDNN_POINTWISE_DIV;
    case PointwiseStep::Mode::kExponential:
      return CUDNN_POINTWISE_EXP;
    case PointwiseStep::Mode::kLogarithm:
      return CUDNN_POINTWISE_LOG;
    case PointwiseStep::Mode::kRelu:
      return CUDNN_POINTWISE_RELU_FWD;
    case PointwiseStep::Mode::kGelu:
      return CUDNN_POINTWISE_GELU_FWD;
    case PointwiseStep::Mode::kTanh:
      break;
  }
  return CUDNN_POINTWISE_TANH_FWD;
}

cudnnBackendNormMode_t modeOf(NormStep::Mode mode) {
  switch (mode) {
    case NormStep::Mode::kBatch:
      return CUDNN_BATCH_NORM;
    case NormStep::Mode::kLayer:
      return CUDNN_LAYER_NORM;
    case NormStep::Mode::kRms:
      return CUDNN_RMS_NORM;
    case NormStep::Mode::kInstance:
      break;
  }
  return CUDNN_INSTANCE_NORM;
}

}  // namespace

void OperationGraph::add(const ConvolutionStep& step) {
  auto& convolution = keep(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, computeType(graph_));
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                  CUDNN_CROSS_CORRELATION);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64,
                  static_cast<int64_t>(step.padding.size()));
  convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, step.padding);
  convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, step.padding);
  convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, step.stride);
  convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, step.dilation);
  convolution.finalize();
  const auto names = namesOf(step.direction);
  auto& operation = keep(names.operation);
  operation.set(names.convolution, convolution);
  give(operation, names.x, step.x);
  give(operation, names.w, step.w);
  give(operation, names.y, step.y);
  if (graph_.dtype == at::kDouble) {
    operation.set(names.alpha, CUDNN_TYPE_DOUBLE, 1.0);
    operation.set(names.beta, CUDNN_TYPE_DOUBLE, 0.0);
  } else {
    operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0F);
    operation.set(names.beta, CUDNN_TYPE_FLOAT, 0.0F);
  }
  operation.finalize();
  operations_.push_back(operation.raw());
}

void OperationGraph::add(const MatmulStep& step) {
  auto& matmul = keep(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  matmul.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, computeType(graph_));
  matmul.finalize();
  auto& operation = keep(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, matmul);
  give(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, step.a);
  give(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, step.b);
  give(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, step.c);
  operation.finalize();
  operations_.push_back(operation.raw());
}

void OperationGraph::add(const PointwiseStep& step) {
  auto& pointwise = keep(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  pointwise.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, modeOf(step.mode));
  pointwise.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, computeType(graph_));
  if (step.mode == PointwiseStep::Mode::kRelu)
    pointwise.set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION,
                  CUDNN_PROPAGATE_NAN);
  pointwise.finalize();
  auto& operation = keep(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
  give(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, step.x);
  give(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, step.b);
  give(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, step.y);
  operation.finalize();
  operations_.push_back(operation.raw());
}

void OperationGraph::add(const ReductionStep& step) {
  auto& reduction = keep(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.set(
      CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
      step.mode == ReductionStep::Mode::kSum ? CUDNN_REDUCE_TENSOR_ADD : CUDNN_REDUCE_TENSOR_MAX);
  reduction.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, computeType(graph_));
  reduction.finalize();
  auto& operation = keep(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
  give(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, step.x);
  give(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, step.y);
  operation.finalize();
  operations_.push_back(operation.raw());
}

void OperationGraph::add(const PoolingStep& step) {
  const bool maximum = step.mode == PoolingStep::Mode::kMax;
  const std::vector<int64_t> window(2, step.window), stride(2, step.stride),
      padding(2, step.padding);
  auto& resample = keep(CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
  resample.set(CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE,
               maximum ? CUDNN_RESAMPLE_MAXPOOL : CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING);
  resample.set(CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, computeType(graph_));
  resample.set(CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION,
               CUDNN_PROPAGATE_NAN);
  resample.set(CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE,
               maximum ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD);
  resample.set(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2});
  resample.set(CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, window);
  resample.set(CUDNN_ATTR_RESAMPLE_STRIDES, stride);
  resample.set(CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, padding);
  resample.set(CUDNN_ATTR_RESAMPLE_POST_PADDINGS, padding);
  resample.finalize();
  auto& operation = keep(step.backward ? CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR
                                       : CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
  if (step.backward) {
    operation.set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, resample);
    give(operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC, step.x);
    give(operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_YDESC, step.y);
    give(operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, step.dy);
    give(operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, step.dx);
  } else {
    operation.set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, resample);
    give(operation, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, step.x);
    give(operation, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, step.y);
  }
  operation.finalize();
  operations_.push_back(operation.raw());
}

void OperationGraph::add(const NormStep& step) {
  if (step.phase == NormStep::Phase::kBackward) {
    auto& operation = keep(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, modeOf(step.mode));
    give(operation, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, step.x);
    give(operation, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, step.dy);
    give(operation, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, step.scale);
    give(operation, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, step.mean);
    give(operation, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, step.inverse);
    give(operation, CUDNN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC, step.epsilon);
    give(operation, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, step.dScale);
    give(operation, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, step.dBias);
    give(operation, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, step.dx);
    operation.finalize();
    operations_.push_back(operation.raw());
    return;
  }
  auto& operation = keep(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, modeOf(step.mode));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE,
                CUDNN_NORM_FWD_TRAINING);
  give(operation, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, step.x);
  give(operation, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, step.scale);
  give(operation, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, step.bias);
  give(operation, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, step.epsilon);
  give(operation, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, step.mean);
  give(operation, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, step.inverse);
  give(operation, CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, step.factor);
  give(operation, CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, step.oldMean);
  give(operation, CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, step.oldVariance);
  give(operation, CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, step.newMean);
  give(operation, CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, step.newVariance);
  give(operation, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, step.y);
  operation.finalize();
  operations_.push_back(operation.raw());
}

// ---- engines and plans

bool wantsKnobs(const GraphCase& graph) {
  return graph.operation == "Attention" && cudnnGetVersion() >= 92000;
}

namespace {

// An engine that cannot be set up for a graph does not support it, whichever status it says so by:
// besides NOT_SUPPORTED, some come with INTERNAL_ERROR or BAD_PARAM.
void finalizeOrRefuse(BackendDescriptor& descriptor) {
  try {
    descriptor.finalize();
  } catch (const NotSupported&) {
    throw;
  } catch (const std::runtime_error& problem) {
    throw NotSupported(problem.what());
  }
}

EngineNotes notesOf(const BackendDescriptor& engine) {
  EngineNotes notes;
  // Room for notes of a later cuDNN, too.
  std::array<cudnnBackendNumericalNote_t, 64> numerical{};
  const int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                   numerical.size(), numerical.data());
  std::array<cudnnBackendBehaviorNote_t, 64> behavior{};
  const int64_t more = engine.get(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                  behavior.size(), behavior.data());
  if (std::max(count, more) > 64) throw std::runtime_error("an engine has more than 64 notes");
  for (int64_t k = 0; k < count; ++k) notes.numerical.insert(static_cast<Note>(numerical.at(k)));
  for (int64_t k = 0; k < more; ++k)
    notes.behavior.push_back(behaviorNoteName(static_cast<int>(behavior.at(k))));
  return notes;
}

}  // namespace

EnginePlan::EnginePlan(std::shared_ptr<const OperationGraph> graph, int64_t index)
    : graph_(std::move(graph)),
      engine_(std::make_unique<BackendDescriptor>(CUDNN_BACKEND_ENGINE_DESCRIPTOR)) {
  engine_->set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph_->descriptor());
  engine_->set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, index);
  if (const auto* described = graph_->target().described())
    engine_->set(CUDNN_ATTR_ENGINE_DEVICEPROP, *described);
  finalizeOrRefuse(*engine_);
  notes_ = notesOf(*engine_);
  configuration_ = std::make_unique<BackendDescriptor>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  configuration_->set(CUDNN_ATTR_ENGINECFG_ENGINE, *engine_);
  finalizeOrRefuse(*configuration_);
}

void EnginePlan::plan() {
  plan_ = std::make_unique<BackendDescriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (!graph_->target().described())
    plan_->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle());
  plan_->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *configuration_);
  finalizeOrRefuse(*plan_);
  plan_->get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &workspace_);
}

void EnginePlan::execute(const std::map<std::string, at::Tensor>& tensors) const {
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  std::vector<float> numbers;
  const auto& graph = graph_->description();
  numbers.reserve(graph.tensors.size());  // pointers into it must stay
  for (const auto& one : graph.tensors) {
    if (one.use == Use::kVirtual) continue;
    ids.push_back(graph_->id(one.name));
    if (one.use == Use::kScalar) {
      numbers.push_back(static_cast<float>(one.number));
      pointers.push_back(&numbers.back());
    } else {
      pointers.push_back(tensors.at(one.name).data_ptr());
    }
  }
  const auto& any = tensors.begin()->second;
  const auto workspace = at::empty({workspace_}, any.options().dtype(at::kByte));
  BackendDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           static_cast<int64_t>(pointers.size()), pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace.data_ptr());
  pack.finalize();
  check(cudnnBackendExecute(handle(), plan_->raw(), pack.raw()), "cudnnBackendExecute");
}

}  // namespace assay::determinism
#endif
