// Choose the file of a fleet for this phone: by rules, by a measurement, and by the times of its runs.
// Needs what Android has (org.json). tiers.json is all that it reads; see README.md beside it.
//
//   val selector = TierSelector(JSONObject(text), Phone(listOf(Build.SOC_MODEL), memoryBytes = memory), stored)
//   if (selector.isNew) {
//       selector.selfTest { tier, inputs -> outputs }  // floats of an image, flat
//       selector.measure { tier -> milliseconds }      // one run
//   }
//   selector.file                    // file to load; null: no file passed the self-test, show no answers
//   selector.ran(milliseconds, hot)  // after each run; true: load selector.file again
//   stored = selector.state()

package com.example.tiers

import android.util.Base64
import kotlin.math.abs
import kotlin.math.ceil
import kotlin.math.ln
import kotlin.math.pow
import org.json.JSONArray
import org.json.JSONException
import org.json.JSONObject

/** A core as /proc/cpuinfo and cpuinfo_max_freq state it: "0xd0b" is a Cortex-A76. */
data class Core(val part: String, val mhz: Double)

/** What the app knows of its phone; leave out what it does not. */
data class Phone(
    val names: List<String> = emptyList(),
    val gpu: String = "",
    val cores: List<Core> = emptyList(),
    val memoryBytes: Long = 0,
    val androidApi: Int = Int.MAX_VALUE
)

/** The tier of this phone; 0 is the floor, a higher one is more accurate and slower. Call it from one thread. */
class TierSelector(private val tiers: JSONObject, private val phone: Phone, stored: String = "") {
    private val rows = tiers.getJSONArray("tiers")
    private val phones = tiers.getJSONArray("phones").let { all -> List(all.length()) { all.getJSONObject(it) } }
    private val rules = tiers.getJSONObject("rules")
    private val budget = tiers.getDouble("budget_ms")
    private val measured = tiers.getInt("measured_tier")

    private var known: JSONObject? = null
    var knownBy = ""
        private set
    private var ratio: Double? = null
    private var highest = rows.length() - 1
    private val failed = mutableListOf<Int>()
    private val times = mutableListOf<Double>()

    /** The phone was hot: measure it again later. */
    var again = false
        private set
    var tier: Int? = null
        private set
    val isNew: Boolean

    init {
        recognise()
        isNew = !restore(stored)
        if (isNew) tier = best()
    }

    /** The name of the file to load; null if every file failed the self-test. */
    val file: String?
        get() = tier?.let { rows.getJSONObject(it).getString("file") }

    /** Milliseconds that a run of a tier does not exceed with the confidence; infinite if unknown. */
    fun expectedMs(tier: Int): Double {
        val phone = known ?: return Double.POSITIVE_INFINITY
        val change = ratio ?: return phone.getJSONArray("sure_ms").getDouble(tier)
        val row = tiers.getJSONArray("measuring").getJSONObject(tier)
        return phone.getJSONArray("ms").getDouble(tier) * change.pow(row.getDouble("gain")) * row.getDouble("factor")
    }

    /** Run the test vectors through the file of the tier; one that computes something else is left for the next. */
    fun selfTest(run: (Int, FloatArray) -> FloatArray): Int? {
        while (true) {
            val current = tier ?: return null
            if (passes(current, run)) return current
            failed.add(current)
            tier = best()
        }
    }

    /** Time the fastest file, and choose by the ratio to its prediction. A hot phone is to be measured again. */
    fun measure(hot: Boolean = false, timeRun: (Int) -> Double): Int? {
        timeRun(measured) // the first run is slower than all others
        val found = mutableListOf<Double>()
        while (found.size < 3 || found.sum() < tiers.getDouble("window_ms")) found.add(timeRun(measured))
        found.sort()
        val middle = found.size / 2
        return place(if (found.size % 2 == 1) found[middle] else (found[middle - 1] + found[middle]) / 2, hot)
    }

    /** Choose by the median time of the fastest file; a better tier than before, also by rules, needs a margin. */
    fun place(milliseconds: Double, hot: Boolean = false): Int? {
        val before = tier
        val remembered = ratio
        if (known == null || knownBy == "time") {
            known = phones.sortedBy { abs(ln(predicted(it) / milliseconds)) }.firstOrNull()
            knownBy = "time"
        }
        val placed = known ?: return tier
        ratio = milliseconds / predicted(placed)
        var found = best()
        if (found != null && before != null && found > before) {
            val most: Int = found
            found = usable().lastOrNull { it in before..most && clearly(it) } ?: before
        }
        tier = found
        again = hot
        if (hot) ratio = remembered
        return tier
    }

    /**
     * Take the time of a run; true if the budget is missed and the tier is now a lower one. The lower tier is kept for
     * good, but on a hot phone only until the app starts again.
     */
    fun ran(milliseconds: Double, hot: Boolean = false): Boolean {
        times.add(milliseconds)
        val current = tier ?: return false
        if (times.size < rules.getInt("window")) return false
        times.sort()
        val slow = times[ceil(0.9 * times.size).toInt() - 1] > rules.getDouble("late") * budget
        times.clear()
        val lower = usable().lastOrNull { it < current }
        if (!slow || lower == null) return false
        tier = lower
        again = again || hot
        if (!hot) highest = lower
        return true
    }

    /** What to store: the choice is remembered until the files change. */
    fun state(): String {
        val placed = if (knownBy == "time") known?.getJSONArray("names")?.getString(0) ?: "" else ""
        return JSONObject()
            .put("id", tiers.getString("id"))
            .put("ratio", ratio ?: JSONObject.NULL)
            .put("highest", highest)
            .put("failed", JSONArray(failed))
            .put("tier", (if (again) null else tier) ?: JSONObject.NULL)
            .put("placed", placed)
            .toString()
    }

    private fun restore(stored: String): Boolean {
        try {
            val kept = JSONObject(stored)
            if (kept.getString("id") != tiers.getString("id")) return false
            val left = kept.getJSONArray("failed")
            val placed = kept.getString("placed")
            if (placed.isNotEmpty()) {
                known = phones.firstOrNull { placed in texts(it.getJSONArray("names")) } ?: return false
                knownBy = "time"
            }
            highest = kept.getInt("highest")
            ratio = if (kept.isNull("ratio")) null else kept.getDouble("ratio")
            for (place in 0 until left.length()) failed.add(left.getInt(place))
            again = kept.isNull("tier") && best() != null
            tier = if (kept.isNull("tier")) best() else kept.getInt("tier")
            return true
        } catch (_: JSONException) {
            return false
        }
    }

    private fun predicted(phone: JSONObject) = phone.getJSONArray("ms").getDouble(measured)

    private fun texts(array: JSONArray) = List(array.length()) { array.getString(it) }

    private fun usable(): List<Int> {
        val all = (0 until rows.length()).toList()
        val most = rules.getDouble("memory_share") * phone.memoryBytes
        var fits = all.filter { it <= highest || it == 0 }
        if (phone.memoryBytes > 0) fits = fits.filter { rows.getJSONObject(it).optDouble("memory_bytes", 0.0) <= most }
        if (phone.androidApi < tiers.getJSONObject("requires").getInt("android_api")) fits = fits.take(1)
        val found = fits.filter { it !in failed }
        return found.ifEmpty { all.filter { it !in failed }.take(1) }
    }

    private fun best(): Int? {
        val usable = usable()
        return usable.lastOrNull { expectedMs(it) <= budget } ?: usable.firstOrNull()
    }

    private fun clearly(tier: Int) = expectedMs(tier) <= rules.getDouble("up") * budget

    private fun passes(tier: Int, run: (Int, FloatArray) -> FloatArray): Boolean {
        val vectors = tiers.getJSONObject("vectors")
        val pixels = vectors.getJSONArray("pixels")
        val stride = vectors.getJSONArray("stride").getInt(tier)
        val tolerance = vectors.getJSONArray("tolerance").getDouble(tier)
        for (place in 0 until pixels.length()) {
            val expected = rows.getJSONObject(tier).getJSONArray("expected").getJSONArray(place)
            val found = try {
                run(tier, inputs(tier, pixels.getString(place))).filterIndexed { at, _ -> at % stride == 0 }
            } catch (_: RuntimeException) {
                return false
            }
            if (found.size != expected.length()) return false
            // A value that is not a number is near to none.
            if (!found.withIndex().all { abs(it.value - expected.getDouble(it.index)) <= tolerance }) return false
        }
        return true
    }

    /** A test vector as a file takes it: its pixels repeated up to the side of the input, normalised. */
    fun inputs(tier: Int, pixels: String): FloatArray {
        val input = rows.getJSONObject(tier).getJSONObject("input")
        val size = input.getInt("size")
        val side = tiers.getJSONObject("vectors").getInt("side")
        val mean = input.getDouble("mean").toFloat()
        val std = input.getDouble("std").toFloat()
        val small = Base64.decode(pixels, Base64.DEFAULT)
        return FloatArray(size * size * 3) {
            val row = it / (3 * size) * side / size
            val column = it / 3 % size * side / size
            ((small[3 * (side * row + column) + it % 3].toInt() and 0xFF) - mean) / std
        }
    }

    private fun recognise() {
        val names = phone.names.map { plain(it) }.filter { it.isNotEmpty() }
        val gpu = plain(phone.gpu)
        val speed = speed()
        val named = phones.firstOrNull { each -> texts(each.getJSONArray("names")).any { it in names } }
        val alike = phones.firstOrNull { it.getString("gpu").isNotEmpty() && it.getString("gpu") in gpu } // slowest first
        val slower = phones.filter { it.getDouble("speed") > 0 && it.getDouble("speed") <= NEARLY * speed }
        val near = slower.filter { it.getDouble("speed") >= speed / APART }.ifEmpty { slower.takeLast(1) }
        val guessed = near.sortedByDescending { predicted(it) }.firstOrNull()
        known = named ?: alike ?: guessed
        knownBy = if (named != null) "name" else if (alike != null) "gpu" else if (guessed != null) "cores" else ""
    }

    /** 10^9 multiply-accumulates a second of the fastest cores; an unknown core counts as a small one. */
    private fun speed(): Double {
        val macs = tiers.getJSONObject("core_macs")
        return phone.cores.map { macs.optDouble(it.part, 4.0) * it.mhz / 1000 }.sortedDescending().take(CORES).sum()
    }

    companion object {
        private const val CORES = 4
        private const val NEARLY = 1.02 // a phone whose cores are so much faster in theory counts as slower
        private const val APART = 1.5 // of the phones whose cores are slower by up to this factor, the slowest counts
        private val MAKERS = Regex("^(qualcomm|mediatek|samsung|hisilicon|google|unisoc|spreadtrum|apple)")

        /** A name for comparison: small letters, digits and plus, without the maker. */
        fun plain(name: String): String {
            val small = name.substringBefore(",").map { if (it in 'A'..'Z') it + 32 else it }.joinToString("")
            return small.replace(Regex("\\((?:tm|r)\\)|[^a-z0-9+]"), "").replace(MAKERS, "")
        }
    }
}
