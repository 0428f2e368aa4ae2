	.text
	.file	"s.c"
	.globl	tail                            # -- Begin function tail
	.p2align	4, 0x90
	.type	tail,@function
tail:                                   # @tail
	.cfi_startproc
# %bb.0:
	pushq	%r15
	.cfi_def_cfa_offset 16
	pushq	%r14
	.cfi_def_cfa_offset 24
	pushq	%rbx
	.cfi_def_cfa_offset 32
	.cfi_offset %rbx, -32
	.cfi_offset %r14, -24
	.cfi_offset %r15, -16
	movl	%edi, %ebx
	movq	24(%rsp), %r14
	leaq	tail(%rip), %r15
	movq	%r15, %rdi
	movq	%r14, %rsi
	callq	__cyg_profile_func_enter@PLT
	addl	$1, %ebx
	movl	%ebx, %edi
	callq	ext@PLT
	movl	%eax, %ebx
	movq	%r15, %rdi
	movq	%r14, %rsi
	callq	__cyg_profile_func_exit@PLT
	movl	%ebx, %eax
	popq	%rbx
	.cfi_def_cfa_offset 24
	popq	%r14
	.cfi_def_cfa_offset 16
	popq	%r15
	.cfi_def_cfa_offset 8
	retq
.Lfunc_end0:
	.size	tail, .Lfunc_end0-tail
	.cfi_endproc
                                        # -- End function
	.globl	indirect                        # -- Begin function indirect
	.p2align	4, 0x90
	.type	indirect,@function
indirect:                               # @indirect
	.cfi_startproc
# %bb.0:
	pushq	%r15
	.cfi_def_cfa_offset 16
	pushq	%r14
	.cfi_def_cfa_offset 24
	pushq	%rbx
	.cfi_def_cfa_offset 32
	.cfi_offset %rbx, -32
	.cfi_offset %r14, -24
	.cfi_offset %r15, -16
	movl	%edi, %ebx
	movq	24(%rsp), %r14
	leaq	indirect(%rip), %r15
	movq	%r15, %rdi
	movq	%r14, %rsi
	callq	__cyg_profile_func_enter@PLT
	movl	%ebx, %eax
	andl	$3, %eax
	movq	table@GOTPCREL(%rip), %rcx
	movl	%ebx, %edi
	callq	*(%rcx,%rax,8)
	movl	%eax, %ebx
	movq	%r15, %rdi
	movq	%r14, %rsi
	callq	__cyg_profile_func_exit@PLT
	movl	%ebx, %eax
	popq	%rbx
	.cfi_def_cfa_offset 24
	popq	%r14
	.cfi_def_cfa_offset 16
	popq	%r15
	.cfi_def_cfa_offset 8
	retq
.Lfunc_end1:
	.size	indirect, .Lfunc_end1-indirect
	.cfi_endproc
                                        # -- End function
	.globl	choose                          # -- Begin function choose
	.p2align	4, 0x90
	.type	choose,@function
choose:                                 # @choose
	.cfi_startproc
# %bb.0:
	pushq	%rbp
	.cfi_def_cfa_offset 16
	pushq	%r14
	.cfi_def_cfa_offset 24
	pushq	%rbx
	.cfi_def_cfa_offset 32
	.cfi_offset %rbx, -32
	.cfi_offset %r14, -24
	.cfi_offset %rbp, -16
	movl	%edi, %ebx
	movq	24(%rsp), %r14
	leaq	choose(%rip), %rdi
	movq	%r14, %rsi
	callq	__cyg_profile_func_enter@PLT
	cmpl	$5, %ebx
	ja	.LBB2_7
# %bb.1:
	movl	$88, %ebp
	movl	%ebx, %eax
	leaq	.LJTI2_0(%rip), %rcx
	movslq	(%rcx,%rax,4), %rax
	addq	%rcx, %rax
	jmpq	*%rax
.LBB2_8:
	movl	$3, %edi
	callq	ext@PLT
	jmp	.LBB2_9
.LBB2_2:
	movl	$9, %edi
	jmp	.LBB2_3
.LBB2_4:
	leaq	twice(%rip), %rbx
	movq	%rbx, %rdi
	movq	%r14, %rsi
	callq	__cyg_profile_func_enter@PLT
	movl	$3, %edi
	callq	ext@PLT
	movl	%eax, %ebp
	addl	%eax, %ebp
	movq	%rbx, %rdi
	movq	%r14, %rsi
	callq	__cyg_profile_func_exit@PLT
	jmp	.LBB2_10
.LBB2_5:
	movl	$7, %edi
.LBB2_3:
	callq	ext@PLT
	movl	%eax, %ebp
	addl	$1, %ebp
	jmp	.LBB2_10
.LBB2_6:
	movl	$3, %edi
	callq	inner
.LBB2_9:
	movl	%eax, %ebp
.LBB2_10:
	leaq	choose(%rip), %rdi
	movq	%r14, %rsi
	callq	__cyg_profile_func_exit@PLT
	movl	%ebp, %eax
	popq	%rbx
	.cfi_def_cfa_offset 24
	popq	%r14
	.cfi_def_cfa_offset 16
	popq	%rbp
	.cfi_def_cfa_offset 8
	retq
.LBB2_7:
	.cfi_def_cfa_offset 32
	callq	abort@PLT
.Lfunc_end2:
	.size	choose, .Lfunc_end2-choose
	.cfi_endproc
	.section	.rodata,"a",@progbits
	.p2align	2
.LJTI2_0:
	.long	.LBB2_8-.LJTI2_0
	.long	.LBB2_2-.LJTI2_0
	.long	.LBB2_10-.LJTI2_0
	.long	.LBB2_4-.LJTI2_0
	.long	.LBB2_5-.LJTI2_0
	.long	.LBB2_6-.LJTI2_0
                                        # -- End function
	.text
	.p2align	4, 0x90                         # -- Begin function twice
	.type	twice,@function
twice:                                  # @twice
	.cfi_startproc
# %bb.0:
	pushq	%rbp
	.cfi_def_cfa_offset 16
	pushq	%r14
	.cfi_def_cfa_offset 24
	pushq	%rbx
	.cfi_def_cfa_offset 32
	.cfi_offset %rbx, -32
	.cfi_offset %r14, -24
	.cfi_offset %rbp, -16
	movl	%edi, %ebp
	movq	24(%rsp), %rbx
	leaq	twice(%rip), %r14
	movq	%r14, %rdi
	movq	%rbx, %rsi
	callq	__cyg_profile_func_enter@PLT
	movl	%ebp, %edi
	callq	ext@PLT
	movl	%eax, %ebp
	addl	%eax, %ebp
	movq	%r14, %rdi
	movq	%rbx, %rsi
	callq	__cyg_profile_func_exit@PLT
	movl	%ebp, %eax
	popq	%rbx
	.cfi_def_cfa_offset 24
	popq	%r14
	.cfi_def_cfa_offset 16
	popq	%rbp
	.cfi_def_cfa_offset 8
	retq
.Lfunc_end3:
	.size	twice, .Lfunc_end3-twice
	.cfi_endproc
                                        # -- End function
	.p2align	4, 0x90                         # -- Begin function inner
	.type	inner,@function
inner:                                  # @inner
	.cfi_startproc
# %bb.0:
	pushq	%rbp
	.cfi_def_cfa_offset 16
	pushq	%r14
	.cfi_def_cfa_offset 24
	pushq	%rbx
	.cfi_def_cfa_offset 32
	.cfi_offset %rbx, -32
	.cfi_offset %r14, -24
	.cfi_offset %rbp, -16
	movl	%edi, %ebp
	movq	24(%rsp), %rbx
	leaq	inner(%rip), %r14
	movq	%r14, %rdi
	movq	%rbx, %rsi
	callq	__cyg_profile_func_enter@PLT
	movl	%ebp, %edi
	callq	ext@PLT
	movl	%eax, %ebp
	addl	$1, %ebp
	movq	%r14, %rdi
	movq	%rbx, %rsi
	callq	__cyg_profile_func_exit@PLT
	movl	%ebp, %eax
	popq	%rbx
	.cfi_def_cfa_offset 24
	popq	%r14
	.cfi_def_cfa_offset 16
	popq	%rbp
	.cfi_def_cfa_offset 8
	retq
.Lfunc_end4:
	.size	inner, .Lfunc_end4-inner
	.cfi_endproc
                                        # -- End function
	.globl	go                              # -- Begin function go
	.p2align	4, 0x90
	.type	go,@function
go:                                     # @go
	.cfi_startproc
# %bb.0:
	pushq	%rbp
	.cfi_def_cfa_offset 16
	pushq	%r15
	.cfi_def_cfa_offset 24
	pushq	%r14
	.cfi_def_cfa_offset 32
	pushq	%rbx
	.cfi_def_cfa_offset 40
	pushq	%rax
	.cfi_def_cfa_offset 48
	.cfi_offset %rbx, -40
	.cfi_offset %r14, -32
	.cfi_offset %r15, -24
	.cfi_offset %rbp, -16
	movq	%rdi, %rbx
	movq	40(%rsp), %r14
	leaq	go(%rip), %rdi
	movq	%r14, %rsi
	callq	__cyg_profile_func_enter@PLT
	xorl	%ebp, %ebp
	movzbl	(%rbx), %eax
	leaq	go.to(%rip), %r15
	addq	$1, %rbx
	jmpq	*(%r15,%rax,8)
	.p2align	4, 0x90
.Ltmp0:                                 # Block address taken
.LBB5_1:                                # =>This Inner Loop Header: Depth=1
	movl	$1, %edi
	callq	ext@PLT
	addl	%eax, %ebp
	movzbl	(%rbx), %eax
	addq	$1, %rbx
	jmpq	*(%r15,%rax,8)
.Ltmp1:                                 # Block address taken
.LBB5_2:                                # =>This Inner Loop Header: Depth=1
	addl	%ebp, %ebp
	movzbl	(%rbx), %eax
	addq	$1, %rbx
	jmpq	*(%r15,%rax,8)
.Ltmp2:                                 # Block address taken
.LBB5_3:
	leaq	go(%rip), %rdi
	movq	%r14, %rsi
	callq	__cyg_profile_func_exit@PLT
	movl	%ebp, %eax
	addq	$8, %rsp
	.cfi_def_cfa_offset 40
	popq	%rbx
	.cfi_def_cfa_offset 32
	popq	%r14
	.cfi_def_cfa_offset 24
	popq	%r15
	.cfi_def_cfa_offset 16
	popq	%rbp
	.cfi_def_cfa_offset 8
	retq
.Lfunc_end5:
	.size	go, .Lfunc_end5-go
	.cfi_endproc
                                        # -- End function
	.globl	maybe                           # -- Begin function maybe
	.p2align	4, 0x90
	.type	maybe,@function
maybe:                                  # @maybe
	.cfi_startproc
# %bb.0:
	pushq	%rbp
	.cfi_def_cfa_offset 16
	pushq	%rbx
	.cfi_def_cfa_offset 24
	pushq	%rax
	.cfi_def_cfa_offset 32
	.cfi_offset %rbx, -24
	.cfi_offset %rbp, -16
	movl	%edi, %ebp
	movq	24(%rsp), %rbx
	leaq	maybe(%rip), %rdi
	movq	%rbx, %rsi
	callq	__cyg_profile_func_enter@PLT
	testl	%ebp, %ebp
	je	.LBB6_1
# %bb.2:
	movl	%ebp, %edi
	callq	ext@PLT
	movl	%eax, %ebp
	jmp	.LBB6_3
.LBB6_1:
	xorl	%ebp, %ebp
.LBB6_3:
	leaq	maybe(%rip), %rdi
	movq	%rbx, %rsi
	callq	__cyg_profile_func_exit@PLT
	movl	%ebp, %eax
	addq	$8, %rsp
	.cfi_def_cfa_offset 24
	popq	%rbx
	.cfi_def_cfa_offset 16
	popq	%rbp
	.cfi_def_cfa_offset 8
	retq
.Lfunc_end6:
	.size	maybe, .Lfunc_end6-maybe
	.cfi_endproc
                                        # -- End function
	.globl	fences                          # -- Begin function fences
	.p2align	4, 0x90
	.type	fences,@function
fences:                                 # @fences
	.cfi_startproc
# %bb.0:
	pushq	%rbp
	.cfi_def_cfa_offset 16
	pushq	%r14
	.cfi_def_cfa_offset 24
	pushq	%rbx
	.cfi_def_cfa_offset 32
	.cfi_offset %rbx, -32
	.cfi_offset %r14, -24
	.cfi_offset %rbp, -16
	movq	24(%rsp), %rbx
	leaq	fences(%rip), %r14
	movq	%r14, %rdi
	movq	%rbx, %rsi
	callq	__cyg_profile_func_enter@PLT
	xorl	%ebp, %ebp
	#APP
.Ltmp3:
	pause
	jne	.Ltmp3
	#NO_APP
	movq	%r14, %rdi
	movq	%rbx, %rsi
	callq	__cyg_profile_func_exit@PLT
	movl	%ebp, %eax
	popq	%rbx
	.cfi_def_cfa_offset 24
	popq	%r14
	.cfi_def_cfa_offset 16
	popq	%rbp
	.cfi_def_cfa_offset 8
	retq
.Lfunc_end7:
	.size	fences, .Lfunc_end7-fences
	.cfi_endproc
                                        # -- End function
	.globl	loop                            # -- Begin function loop
	.p2align	4, 0x90
	.type	loop,@function
loop:                                   # @loop
	.cfi_startproc
# %bb.0:
	pushq	%r14
	.cfi_def_cfa_offset 16
	pushq	%rbx
	.cfi_def_cfa_offset 24
	pushq	%rax
	.cfi_def_cfa_offset 32
	.cfi_offset %rbx, -24
	.cfi_offset %r14, -16
	movq	%rdi, %rbx
	movq	24(%rsp), %r14
	leaq	loop(%rip), %rdi
	movq	%r14, %rsi
	callq	__cyg_profile_func_enter@PLT
	movl	(%rbx), %eax
	.p2align	4, 0x90
.LBB8_1:                                # =>This Inner Loop Header: Depth=1
	movl	%eax, %edi
	callq	ext@PLT
	addl	(%rbx), %eax
	movl	%eax, (%rbx)
	cmpl	$100, %eax
	jl	.LBB8_1
# %bb.2:
	leaq	loop(%rip), %rdi
	movq	%r14, %rsi
	callq	__cyg_profile_func_exit@PLT
	movl	$3, %eax
	addq	$8, %rsp
	.cfi_def_cfa_offset 24
	popq	%rbx
	.cfi_def_cfa_offset 16
	popq	%r14
	.cfi_def_cfa_offset 8
	retq
.Lfunc_end8:
	.size	loop, .Lfunc_end8-loop
	.cfi_endproc
                                        # -- End function
	.type	go.to,@object                   # @go.to
	.section	.data.rel.ro,"aw",@progbits
	.p2align	4
go.to:
	.quad	.Ltmp0
	.quad	.Ltmp1
	.quad	.Ltmp2
	.size	go.to, 24

	.ident	"Debian clang version 14.0.6"
	.section	".note.GNU-stack","",@progbits
	.addrsig
	.addrsig_sym tail
	.addrsig_sym indirect
	.addrsig_sym choose
	.addrsig_sym twice
	.addrsig_sym inner
	.addrsig_sym go
	.addrsig_sym maybe
	.addrsig_sym fences
	.addrsig_sym loop
