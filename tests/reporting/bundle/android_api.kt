// Declarations of what the code for Android calls, to compile it without Android. Bodies are empty: nothing runs.
//
// LiteRT 2: litert/kotlin/src/main/kotlin/com/google/ai/edge/litert in the repository google-ai-edge/LiteRT (Model.kt at
// 070f50f5, TensorBuffer.kt at 0b7af5ac, Environment.kt at 23dd4f7d, AcceleratorProvider.kt at 01d971c5), and the guide
// https://developers.google.com/edge/litert/next/android_kotlin, which names litert:2.3.0. Common.kt declares Accelerator and
// JniHandle. Interpreter and Tensor: https://ai.google.dev/edge/api/tflite/java/org/tensorflow/lite.
// Android: https://developer.android.com/reference.

//// com/google/ai/edge/litert
package com.google.ai.edge.litert

import android.content.Context
import android.content.res.AssetManager

enum class Accelerator { NONE, CPU, GPU, NPU }

abstract class JniHandle : AutoCloseable {
    final override fun close() {}
}

interface NpuAcceleratorProvider

class BuiltinNpuAcceleratorProvider(context: Context) : NpuAcceleratorProvider

class Environment private constructor() : JniHandle() {
    enum class Option { CompilerPluginLibraryDir, DispatchLibraryDir }

    companion object {
        fun create(options: Map<Option, String> = mapOf()): Environment = Environment()
        fun create(provider: NpuAcceleratorProvider, options: Map<Option, String> = mapOf()): Environment = Environment()
    }
}

class TensorBuffer internal constructor() : JniHandle() {
    fun writeFloat(data: FloatArray) {}
    fun readFloat(): FloatArray = FloatArray(0)
}

class CompiledModel private constructor() : JniHandle() {
    data class CpuOptions(
        val numThreads: Int? = null,
        val xnnPackFlags: Int? = null,
        val xnnPackWeightCachePath: String? = null
    )

    class Options(internal vararg val accelerators: Accelerator) {
        var cpuOptions: CpuOptions? = null
    }

    fun createInputBuffers(signatureIndex: Int = 0): List<TensorBuffer> = listOf()
    fun createOutputBuffers(signatureIndex: Int = 0): List<TensorBuffer> = listOf()
    fun run(inputs: List<TensorBuffer>, outputs: List<TensorBuffer>, signatureIndex: Int = 0) {}

    companion object {
        fun create(
            assetManager: AssetManager,
            assetName: String,
            options: Options = Options(Accelerator.CPU),
            optionalEnv: Environment? = null
        ): CompiledModel = CompiledModel()
    }
}

//// org/tensorflow/lite
package org.tensorflow.lite

import java.nio.ByteBuffer

class Tensor {
    fun numElements() = 0
}

class Interpreter(model: ByteBuffer, options: Options) : AutoCloseable {
    class Options {
        fun setNumThreads(threads: Int): Options = this
        fun setUseXNNPACK(use: Boolean): Options = this
    }

    val outputTensorCount = 0
    fun getOutputTensor(place: Int): Tensor = Tensor()
    fun runForMultipleInputsOutputs(inputs: Array<Any>, outputs: Map<Int, Any>) {}
    override fun close() {}
}

//// android/content/res
package android.content.res

import java.io.Closeable
import java.io.FileDescriptor
import java.io.InputStream

class AssetFileDescriptor : Closeable {
    val fileDescriptor = FileDescriptor()
    val startOffset = 0L
    val declaredLength = 0L
    override fun close() {}
}

class AssetManager {
    fun open(name: String): InputStream = name.byteInputStream()
    fun openFd(name: String): AssetFileDescriptor = AssetFileDescriptor()
}

//// android/content
package android.content

import android.content.res.AssetManager

class Context {
    val assets = AssetManager()
}

//// android/graphics
package android.graphics

class RectF(val left: Float, val top: Float, val right: Float, val bottom: Float)

class PointF(val x: Float, val y: Float)

class Bitmap private constructor(val width: Int, val height: Int, val config: Config?) {
    enum class Config { ALPHA_8, RGB_565, ARGB_8888, RGBA_F16, HARDWARE }

    fun copy(config: Config, isMutable: Boolean): Bitmap = this
    fun getPixels(pixels: IntArray, offset: Int, stride: Int, x: Int, y: Int, width: Int, height: Int) {}

    companion object {
        fun createScaledBitmap(source: Bitmap, width: Int, height: Int, filter: Boolean): Bitmap = source
    }
}

object BitmapFactory {
    fun decodeByteArray(data: ByteArray, offset: Int, length: Int): Bitmap? = null
}
