; Words that the host sets after it has loaded a module: what a kernel must know of this run.
; They are no constants of the compiled text, so the same machine code serves every run.
; Their order is that of ``Word`` in words.py.
target triple = "nvptx64-nvidia-cuda"

@tdsim_words = addrspace(1) externally_initialized global [8 x i64] zeroinitializer, align 8

define i64 @tdsim_word(i32 %index) #0 {
  %offset = sext i32 %index to i64
  %place = getelementptr [8 x i64], ptr addrspace(1) @tdsim_words, i64 0, i64 %offset
  %word = load i64, ptr addrspace(1) %place, align 8
  ret i64 %word
}

attributes #0 = { alwaysinline nounwind }
